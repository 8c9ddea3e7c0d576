"""Log lines: readable for people, JSON for machines, without secrets for both."""

import io
import json
import logging
import sys

import pytest

from glove_site import logs


@pytest.fixture
def line():
    """What a record becomes, by the formatter of that name."""

    def write(debug, message, *args, **options):
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        handler.setFormatter(
            logs.ReadableFormatter("%(levelname)s %(name)s: %(message)s") if debug else logs.JsonFormatter()
        )
        logger = logging.getLogger("shop")
        logger.addHandler(handler)
        try:
            logger.warning(message, *args, **options)
        finally:
            logger.removeHandler(handler)
        return stream.getvalue()

    return write


def test_a_person_reads_a_sentence(line):
    assert line(True, "Turn %s failed", 7) == "WARNING shop: Turn 7 failed\n"


def test_a_machine_reads_one_object_a_line_traceback_included(line):
    try:
        raise ValueError("no such\nthing")
    except ValueError:
        written = line(False, "Turn %s failed", 7, exc_info=True, extra={"turn": 7})
    assert written.count("\n") == 1
    found = json.loads(written)
    assert {**found, "time": "", "exception": ""} == {
        "event": "Turn 7 failed",
        "level": "warning",
        "logger": "shop",
        "turn": 7,
        "time": "",
        "exception": "",
    }
    assert "ValueError: no such\nthing" in found["exception"]
    assert found["time"].endswith("Z")


@pytest.mark.parametrize("debug", [True, False])
@pytest.mark.parametrize(
    "secret",
    [
        '127.0.0.1 - "POST /r/{} HTTP/1.1" 200',
        "Authorization: Bearer {}",
        "Authorization: Basic {}",
        "key glv_{} was used",
        "key sk-ant-{} was used",
        "webhook secret whsec_{}",
        "redis://user:{}@cache:6379/0",
        "postgres://:{}@db/glove",
    ],
)
def test_secrets_are_struck_out(line, debug, secret):
    token = "S3cr3tS3cr3tS3cr3tS3cr3t"
    written = line(debug, "%s", secret.format(token))
    assert token not in written
    assert "[redacted]" in written


def test_what_is_no_secret_is_left(line):
    for harmless in ("GET /refunds/7 http://shop.example:8000/path", "the bearer of news", "/r/short"):
        assert harmless in line(True, harmless)


def formatted(formatter, name, level=logging.WARNING, **extra):
    try:
        raise PermissionError("not you")
    except PermissionError:
        caught = sys.exc_info()
    record = logging.LogRecord(name, level, __file__, 1, "Forbidden: /admin/", (), caught)
    record.__dict__.update(extra)
    return formatter.format(record)


@pytest.mark.parametrize("formatter", [logs.ReadableFormatter(), logs.JsonFormatter()])
def test_what_callers_did_wrong_is_no_traceback_and_what_failed_here_is(formatter):
    for name, extra in (("django.request", {"status_code": 403}), ("django.security.DisallowedHost", {})):
        assert "PermissionError" not in formatted(formatter, name, **extra)
    for name, extra in (("django.request", {"status_code": 500}), ("shop", {}), ("shop", {"color_message": "x"})):
        assert "PermissionError: not you" in formatted(formatter, name, **extra)


def test_no_colours_for_a_machine():
    assert "color" not in formatted(logs.JsonFormatter(), "uvicorn.error", color_message="\x1b[36mx")
