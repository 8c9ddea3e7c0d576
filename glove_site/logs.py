"""Logging: readable lines while developing, one JSON object a line in production. Secrets never reach a line."""

import copy
import logging
import re
from typing import Any

import structlog

# What would open something for whoever reads the log, and what is written in its place.
SECRETS = (
    (re.compile(r"/r/[A-Za-z0-9_.~-]{8,}"), "/r/[redacted]"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9_.~+/=-]{8,}"), r"\1 [redacted]"),
    (re.compile(r"\b(?:glv|whsec|sk)[_-][A-Za-z0-9_+/=-]{8,}"), "[redacted]"),
    (re.compile(r"(://[^/\s:@\"']*:)[^/\s@\"']+@"), r"\1[redacted]@"),
)


def redact(line: str) -> str:
    """The line without tokens of links, keys of callers and passwords in addresses of servers."""
    for pattern, instead in SECRETS:
        line = pattern.sub(instead, line)
    return line


def without_needless(record: logging.LogRecord) -> logging.LogRecord:
    """A caller's error is one line, its traceback would only tell where Django found it; and no colours."""
    refused = record.name == "django.request" and getattr(record, "status_code", 500) < 500
    if not (refused or record.name == "django.security.DisallowedHost" or hasattr(record, "color_message")):
        return record
    record = copy.copy(record)
    record.__dict__.pop("color_message", None)
    if record.name.startswith("django."):
        record.exc_info = record.exc_text = None
    return record


class ReadableFormatter(logging.Formatter):
    """For a person at a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(without_needless(record)))


class JsonFormatter(structlog.stdlib.ProcessorFormatter):
    """For a machine: time, level, logger, event, and the traceback as text."""

    def __init__(self) -> None:
        shared: list[Any] = [
            structlog.stdlib.add_logger_name,
            structlog.stdlib.add_log_level,
            structlog.stdlib.ExtraAdder(),
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        ]
        super().__init__(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(),
            ],
        )

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(without_needless(record)))


def configuration(*, debug: bool, level: str) -> dict[str, Any]:
    """For Django's LOGGING. Everything goes to stderr through one handler; stdout belongs to commands."""
    quiet = "WARNING" if debug else level
    through_root: dict[str, Any] = {"handlers": [], "propagate": True}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "readable": {
                "()": "glove_site.logs.ReadableFormatter",
                "format": "%(asctime)s %(levelname)-7s %(name)s: %(message)s",
                "datefmt": "%H:%M:%S",
            },
            "json": {"()": "glove_site.logs.JsonFormatter"},
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "readable" if debug else "json"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # These set handlers of their own, which would write every line twice, and access lines with tokens in them.
            "django": {**through_root, "level": level},
            "django.server": {**through_root, "level": quiet},
            "uvicorn": {**through_root, "level": quiet},
            "uvicorn.error": {**through_root, "level": quiet},
            "uvicorn.access": {**through_root, "level": quiet},
            # Each says a line per call.
            "celery": {**through_root, "level": quiet},
            "kombu": {**through_root, "level": "WARNING"},
            "httpx2": {**through_root, "level": "WARNING"},
            "anthropic": {**through_root, "level": "WARNING"},
        },
    }
