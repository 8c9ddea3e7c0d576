"""A wrong declaration fails when its module is imported, and says what is wrong."""

import subprocess
import sys

import pytest
from celery.schedules import crontab

from inbox import resolver, standard_webhooks, webhook
from inbox.errors import BadDeclaration, DuplicateName
from inbox.instants import Crontab, Every
from tests.environment import ROOT


def signed(request):
    return True


def test_a_resolver_is_named_after_its_function_and_stays_callable(declarations):
    @resolver("restock:*", every=300)
    def restocked(item):
        return f"seen {item}"

    assert declarations.resolvers == {"restocked": restocked}
    assert (restocked.name, restocked.pattern, restocked.schedule) == ("restocked", "restock:*", Every(300))
    assert restocked("x") == "seen x"


def test_a_name_of_its_own(declarations):
    resolver("a", every=1, name="other")(lambda item: None)
    webhook("pay.v2", verify=signed)(lambda payload: None)
    assert set(declarations.resolvers) == {"other"}
    assert set(declarations.webhooks) == {"pay.v2"}


@pytest.mark.parametrize(
    ("given", "timezone", "expected"),
    [
        ("0 9 * * 1-5", None, Crontab("0", "9", "*", "*", "1-5", "UTC")),
        ("0 9 * * mon", "Europe/Berlin", Crontab("0", "9", "*", "*", "mon", "Europe/Berlin")),
        (crontab(minute=30, hour={4, 2}), None, Crontab("30", "2,4", "*", "*", "*", "UTC")),
    ],
)
def test_a_crontab_as_text_or_as_celery_has_it(declarations, given, timezone, expected):
    made = resolver("a", crontab=given, timezone=timezone, name="x")(lambda item: None)
    assert made.schedule == expected


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "either every=seconds or crontab="),
        ({"every": 5, "crontab": "* * * * *"}, "either every=seconds or crontab="),
        ({"every": 0}, "whole seconds"),
        ({"every": True}, "whole seconds"),
        ({"every": 1.5}, "whole seconds"),
        ({"every": 5, "timezone": "UTC"}, "belongs to crontab"),
        ({"crontab": "* * * *"}, "five fields"),
        ({"crontab": "99 * * * *"}, "99"),
        ({"crontab": "0 0 30 2 *"}, "30"),
        ({"crontab": 5}, "five fields"),
        ({"crontab": "* * * * *", "timezone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"crontab": "* * * * *", "timezone": "../etc/passwd"}, "time zone"),
        ({"every": 5, "name": "two words"}, "two words"),
    ],
)
def test_a_wrong_resolver(declarations, options, said):
    with pytest.raises(BadDeclaration, match=said):
        resolver("restock:*", **options)(lambda item: None)
    assert not declarations.resolvers


@pytest.mark.parametrize("pattern", ["", "two words", "a" * 121, "mesh:*", "Tool:x", None])
def test_a_wrong_pattern(declarations, pattern):
    with pytest.raises(BadDeclaration):
        resolver(pattern, every=5)


async def later(item):
    return None


def many(item):
    yield None


@pytest.mark.parametrize("function", [later, many, None])
def test_what_is_no_plain_function(declarations, function):
    with pytest.raises(BadDeclaration, match="plain function"):
        resolver("a", every=5, name="x")(function)
    with pytest.raises(BadDeclaration, match="plain function"):
        webhook("x", verify=signed)(function)
    with pytest.raises(BadDeclaration):
        webhook("x", verify=function)  # a coroutine would count as a yes


def test_two_of_one_name_fail_and_the_first_stays(declarations):
    first = resolver("a", every=5, name="x")(lambda item: None)
    webhook("x", verify=signed)(lambda payload: None)  # another kind may have the name
    with pytest.raises(DuplicateName, match=r"'x': in tests\.inbox\.test_declaring and in"):
        resolver("b", every=5, name="x")(lambda item: None)
    with pytest.raises(DuplicateName):
        webhook("x", verify=signed)(lambda payload: None)
    assert declarations.resolvers == {"x": first}


@pytest.mark.parametrize("secret", ["", "whsec_", "not base64!", None, b"bytes"])
def test_a_secret_that_is_none(secret):
    with pytest.raises(BadDeclaration, match="secret"):
        standard_webhooks(secret)


def test_declaring_needs_no_apps():
    """A glove.py may be imported before Django's apps are ready."""
    code = (
        "from django.conf import settings; settings.configure()\n"
        "from inbox import resolver, standard_webhooks, webhook\n"
        "resolver('a', every=5)(print); webhook('b', verify=standard_webhooks('whsec_c2VjcmV0'))(print)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
