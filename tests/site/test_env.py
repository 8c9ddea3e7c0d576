"""A value of the environment that cannot be used ends the start with a sentence."""

import os
import re
import subprocess
import sys

import pytest
from django.core.exceptions import ImproperlyConfigured

from glove_site import env
from tests.environment import ROOT


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


@pytest.mark.parametrize("value", ["", " ", "yes", "true", "01"])
def test_a_flag_is_1_or_0_and_no_blank(monkeypatch, value):
    """An env file with `DEBUG=` in it does not switch debugging on."""
    monkeypatch.setenv("DEBUG", value)
    with pytest.raises(ImproperlyConfigured, match=r"DEBUG=.*: write 1 or 0\."):
        env.flag("DEBUG", True)


def test_a_flag_that_is_not_there_is_the_default(monkeypatch):
    monkeypatch.delenv("DEBUG")
    assert [env.flag("DEBUG", True), env.flag("DEBUG", False)] == [True, False]


WRONG = [
    *((env.time_zone, value) for value in ("Nowhere/Land", "../x", "/etc/localtime", "Europe", "\N{EURO SIGN}")),
    *(
        (env.web_address, value)
        for value in ("foo", "glove.example", "ftp://x", "https://", "http://x:y", "http://x/?a=b")
    ),
    *((env.redis_address, value) for value in ("foo", "localhost:6379", "amqp://x", "redis://", "redis://x:y/0")),
    *(
        (env.database, value)
        for value in ("foo", "mysql://x/y", "postgres://x", "postgres://u:p#w@x/y", "postgres://x:y/z")
    ),
]


@pytest.mark.parametrize(("read", "value"), WRONG)
def test_what_is_no_address_or_zone(monkeypatch, read, value):
    monkeypatch.setenv("NAME", value)
    arguments = {env.redis_address: (), env.database: (value,)}.get(read, ("",))
    with pytest.raises(ImproperlyConfigured, match=r"^NAME.*: write "):
        read("NAME", *arguments)


@pytest.mark.parametrize("value", ["postgres://ada:se#cret@x:y/z", "redis://:secret@x:y/0"])
def test_a_password_is_not_repeated(monkeypatch, value):
    monkeypatch.setenv("NAME", value)
    with pytest.raises(ImproperlyConfigured) as raised:
        env.redis_address("NAME") if value.startswith("redis") else env.database("NAME", value)
    assert "cret" not in str(raised.value)


@pytest.mark.parametrize(
    "value", ["{", "[]", "3", '{"a": 3}', '{"a": {"input": "3"}}', '{"a": {"inputs": 3}}', '{"a": {"input": NaN}}']
)
def test_what_is_no_price(monkeypatch, value):
    monkeypatch.setenv("GLOVE_PRICES", value)
    with pytest.raises(ImproperlyConfigured, match="GLOVE_PRICES: write JSON"):
        env.prices("GLOVE_PRICES")


def test_what_is_right_is_taken(monkeypatch, tmp_path):
    for name, value in {
        "PRICES": '{"a": {"input": 3}}',
        "ZONE": "Europe/Berlin",
        "URL": "https://x:8443/",
        "R": "rediss://r",
    }.items():
        monkeypatch.setenv(name, value)
    assert env.prices("PRICES") == {"a": {"input": 3}}
    assert env.time_zone("ZONE", "UTC") == "Europe/Berlin"
    assert env.web_address("URL", "") == "https://x:8443"
    assert env.redis_address("R") == "rediss://r"
    assert env.database("D", "postgres://u:p%40@h:5433/n?sslmode=require")["PASSWORD"] == "p@"
    assert env.folder("NONE", tmp_path / "a" / "b").is_dir()


def test_blanks_are_defaults(monkeypatch, tmp_path):
    monkeypatch.setenv("NAME", " ")
    assert (env.time_zone("NAME", "UTC"), env.web_address("NAME", "http://x"), env.redis_address("NAME")) == (
        "UTC",
        "http://x",
        "",
    )
    assert (env.prices("NAME"), env.folder("NAME", tmp_path)) == ({}, tmp_path)


MANAGE = ("manage.py", "check")
SHOP = """
from inbox import resolver

@resolver("restock:*")
def restocked(item):
    return None
"""


@pytest.fixture
def says(tmp_path):
    """`says(command, **wrong)`: all that a process with these values of the environment writes before it leaves with 1."""
    (tmp_path / "badshop").mkdir()
    (tmp_path / "badshop" / "__init__.py").touch()
    (tmp_path / "badshop" / "glove.py").write_text(SHOP)

    def run(*command, **wrong):
        given = {**os.environ, "GLOVE_VAR": str(tmp_path), "PYTHONPATH": str(tmp_path), "SECRET_KEY": "x", **wrong}
        done = subprocess.run(
            [sys.executable, *command], env=given, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 1, done.stderr
        assert "Traceback" not in done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr

    return run


SETTINGS = """
import importlib, os, sys
from django.core.exceptions import ImproperlyConfigured
from glove_site import settings
for pair in sys.argv[1:]:
    name, _, value = pair.partition("=")
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        importlib.reload(settings)
        print(name, "is taken")
    except ImproperlyConfigured as error:
        print(name, error)
    os.environ.pop(name) if before is None else os.environ.update({name: before})
"""


def test_the_settings_refuse_each_by_its_name(tmp_path):
    wrong = {
        "GLOVE_APPS": "nosuch",
        "DEBUG": "yes",
        "LOG_LEVEL": "loud",
        "TIME_ZONE": "Nowhere/Land",
        "PUBLIC_URL": "foo",
        "GLOVE_PRICES": "{",
        "REDIS_URL": "foo",
        "DATABASE_URL": "nonsense",
        "GLOVE_LEASE_S": "soon",
        "GLOVE_VAR": "/dev/null/x",
    }
    pairs = [f"{name}={value}" for name, value in wrong.items()]
    given = {**os.environ, "GLOVE_VAR": str(tmp_path), "SECRET_KEY": "x"}
    done = subprocess.run(
        [sys.executable, "-c", SETTINGS, *pairs], env=given, cwd=ROOT, capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(wrong)
    assert not [line for line in lines if "is taken" in line or line.split()[0] not in line.split(" ", 1)[1]]


@pytest.mark.parametrize(
    ("wrong", "command", "word"),
    [
        ({"DEBUG": "0", "SECRET_KEY": ""}, "check", "SECRET_KEY"),
        ({"PUBLIC_URL": "foo"}, "serve", "PUBLIC_URL"),
        ({"DATABASE_URL": "sqlite:////nowhere/at/all.sqlite3"}, "check_invariants", "Check DATABASE_URL"),
    ],
)
def test_a_command_says_one_sentence_and_exits_with_1(says, wrong, command, word):
    assert word in says("manage.py", command, **wrong)


@pytest.mark.parametrize(
    "command",
    [
        MANAGE,
        ("-m", "celery", "-q", "-A", "glove_site", "worker", "-P", "threads"),
        ("-m", "celery", "-q", "-A", "glove_site", "beat"),
        ("-m", "uvicorn", "glove_site.asgi:application"),
    ],
    ids=lambda command: " ".join(command[:2]) if command == MANAGE else f"{command[1]} {command[-1]}",
)
def test_every_process_says_it_in_one_sentence(says, command):
    assert "DATABASE_URL" in says(*command, DATABASE_URL="nonsense")
    declared = says(*command, GLOVE_APPS="badshop")
    assert "badshop/glove.py, line 4: @resolver takes either every" in declared


def test_the_rest_is_shown_to_whoever_asks(tmp_path):
    given = {**os.environ, "GLOVE_VAR": str(tmp_path), "TIME_ZONE": "Nowhere/Land"}
    done = subprocess.run(
        [sys.executable, *MANAGE, "--traceback"],
        env=given,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" in done.stderr


# --- What is read is written down
READ = re.compile(r"""(?:environ(?:\.get\(|\[)|env\.(?!database)\w+\()\s*["']([A-Z][A-Z_]+)["']""")
ELSEWHERE = {"DJANGO_SETTINGS_MODULE", "ANTHROPIC_AUTH_TOKEN"}  # Django's own, and the SDK's


def test_every_variable_is_in_the_table():
    folders = ("glove_site", "inbox", "agents", "mesh")
    sources = [path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py")]
    read = {name for source in sources for name in READ.findall(source)} - ELSEWHERE
    table = {
        name
        for line in (ROOT / "docs/how-to/run.md").read_text().splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([A-Z][A-Z_]+)`", line.split(" | ")[0])
    }
    assert {"DEBUG", "SECRET_KEY", "DATABASE_URL", "REDIS_URL", "INBOX_OWNER_TAGS", "GLOVE_PRICES"} <= read
    assert table == read
