"""A value of the environment that cannot be used ends the start with a sentence."""

import os
import subprocess
import sys

import pytest
from django.core.exceptions import ImproperlyConfigured

from glove_site import env


@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", "\N{SUPERSCRIPT TWO}"])
def test_a_whole_number(monkeypatch, value):
    monkeypatch.setenv("PORT_OF_MAIL", value)
    with pytest.raises(ImproperlyConfigured, match="PORT_OF_MAIL"):
        env.whole("PORT_OF_MAIL", 25)


@pytest.mark.parametrize(("value", "means"), [("", 25), (" ", 25), ("587", 587)])
def test_a_blank_one_is_the_default(monkeypatch, value, means):
    monkeypatch.setenv("PORT_OF_MAIL", value)
    assert env.whole("PORT_OF_MAIL", 25) == means


def test_a_word_of_several(monkeypatch):
    monkeypatch.setenv("LEVEL", "warning")
    assert env.one_of("LEVEL", ("INFO", "WARNING"), "INFO") == "WARNING"
    monkeypatch.setenv("LEVEL", "loud")
    with pytest.raises(ImproperlyConfigured, match="INFO, WARNING"):
        env.one_of("LEVEL", ("INFO", "WARNING"), "INFO")


def test_apps_that_are_not_there(monkeypatch):
    monkeypatch.setenv("APPS", "inbox, inbox.apps.InboxConfig")
    assert env.django_apps("APPS") == ["inbox", "inbox.apps.InboxConfig"]
    monkeypatch.setenv("APPS", "inbox,nosuch.apps.Config")
    with pytest.raises(ImproperlyConfigured, match=r"nosuch\.apps\.Config"):
        env.django_apps("APPS")


@pytest.mark.parametrize(
    ("wrong", "command", "says"),
    [
        ({"GLOVE_APPS": "nosuch"}, "check", "nosuch"),
        ({"DEBUG": "yes"}, "check", "write 1 or 0"),
        ({"LOG_LEVEL": "loud"}, "sweep", "LOG_LEVEL"),
        ({"DATABASE_URL": "sqlite:////nowhere/at/all.sqlite3"}, "check_invariants", "Check DATABASE_URL"),
    ],
)
def test_a_command_says_one_sentence_and_exits_with_1(tmp_path, wrong, command, says):
    given = {**os.environ, "GLOVE_VAR": str(tmp_path), "SECRET_KEY": "x", **wrong}
    done = subprocess.run(
        [sys.executable, "manage.py", command], env=given, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
