"""What is wrong in the settings is named by `manage.py check`."""

import pytest

from inbox.checks import check_notifiers, check_owner_tags
from inbox.notifiers.base import BaseNotifier

EMAIL = "inbox.notifiers.email.EmailNotifier"
NULL = "inbox.notifiers.null.NullNotifier"


class Pager(BaseNotifier):
    """Takes a number."""

    option_types = {"number": int}


class NoNotifier:
    def __init__(self, alias, options):
        pass


@pytest.mark.parametrize(
    "fine",
    [
        {},
        {"default": {"BACKEND": NULL}},
        {"default": {"BACKEND": EMAIL, "OPTIONS": {"from_email": "a@example.com"}}},
        {"pager": {"BACKEND": "tests.inbox.test_checks.Pager", "OPTIONS": {"number": 5}}},
    ],
)
def test_fine_notifiers(settings, fine):
    settings.INBOX_NOTIFIERS = fine
    assert check_notifiers() == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([], "must be a dict"),
        ({"default": EMAIL}, "must be a dict with a BACKEND"),
        ({"default": {"OPTIONS": {}}}, "must be a dict with a BACKEND"),
        ({"default": {"BACKEND": "no.such.Thing"}}, "no.such.Thing cannot be used"),
        ({"default": {"BACKEND": "inbox.notifiers.email.NoSuch"}}, "cannot be used"),
        ({"default": {"BACKEND": "tests.inbox.test_checks.NoNotifier"}}, "not a subclass of BaseNotifier"),
        ({"default": {"BACKEND": EMAIL, "OPTION": {}}}, "unknown key 'OPTION'"),
        ({"default": {"BACKEND": EMAIL, "OPTIONS": {"form_email": "x"}}}, "no option 'form_email'"),
        ({"default": {"BACKEND": EMAIL, "OPTIONS": {"from_email": 5}}}, "must be of type str"),
        ({"default": {"BACKEND": NULL, "OPTIONS": {"to": "x"}}}, "no option 'to'"),
        ({"d" * 51: {"BACKEND": NULL}}, "at most 50"),
    ],
)
def test_wrong_notifiers(settings, wrong, said):
    settings.INBOX_NOTIFIERS = wrong
    (message,) = check_notifiers()
    assert said in message.msg


@pytest.mark.parametrize("fine", [[], ["note:*", "memo"], ("a",)])
def test_fine_owner_tags(settings, fine):
    settings.INBOX_OWNER_TAGS = fine
    assert check_owner_tags() == []


@pytest.mark.parametrize("wrong", ["note:*", ["two words"], [""], [5], ["tool:*"]])
def test_wrong_owner_tags(settings, wrong):
    settings.INBOX_OWNER_TAGS = wrong
    (message,) = check_owner_tags()
    assert "INBOX_OWNER_TAGS" in message.msg
    assert message.hint
