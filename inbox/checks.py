"""System checks: what is wrong in the settings of the inbox, and how to mend it."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from inbox import tags
from inbox.errors import BadTag

HINT = 'INBOX_NOTIFIERS = {"default": {"BACKEND": "inbox.notifiers.email.EmailNotifier", "OPTIONS": {}}}'


@register
def check_notifiers(**kwargs: Any) -> list[CheckMessage]:
    """INBOX_NOTIFIERS: its shape, each backend, and each backend's options."""
    notifiers: Any = settings.INBOX_NOTIFIERS
    if not isinstance(notifiers, dict):
        return [Error("INBOX_NOTIFIERS must be a dict of alias -> BACKEND and OPTIONS.", hint=HINT, id="inbox.E001")]
    return [message for alias in notifiers for message in _check_notifier(alias)]


@register
def check_owner_tags(**kwargs: Any) -> list[CheckMessage]:
    """INBOX_OWNER_TAGS: a sequence of tag patterns. One string would be read letter by letter."""
    patterns: Any = settings.INBOX_OWNER_TAGS
    if not isinstance(patterns, list | tuple):
        return [_bad_pattern("it must be a list of tag patterns.")]
    return [_bad_pattern(problem) for pattern in patterns if (problem := _problem(pattern))]


def _check_notifier(alias: str) -> Iterator[CheckMessage]:
    from inbox.notifiers import get_notifier
    from inbox.notifiers.base import BaseNotifier

    where = f"INBOX_NOTIFIERS[{alias!r}]"
    config: Any = settings.INBOX_NOTIFIERS[alias]
    if not isinstance(config, dict) or not isinstance(config.get("BACKEND"), str):
        yield Error(f"{where} must be a dict with a BACKEND: the dotted path of a class.", hint=HINT, id="inbox.E001")
        return
    if len(alias) > 50:
        yield Error(f"{where}: an alias is at most 50 characters.", id="inbox.E001")
    for unknown in config.keys() - {"BACKEND", "OPTIONS"}:
        yield Error(f"{where} has an unknown key {unknown!r}.", hint=HINT, id="inbox.E001")
    try:
        notifier: Any = get_notifier(alias)
    except Exception as error:
        yield Error(f"{where}: {config['BACKEND']} cannot be used: {error}", hint=HINT, id="inbox.E001")
        return
    if not isinstance(notifier, BaseNotifier):
        yield Error(f"{where}: {config['BACKEND']} is not a subclass of BaseNotifier.", hint=HINT, id="inbox.E001")
        return
    yield from notifier.check()


def _problem(pattern: Any) -> str:
    try:
        tags.check_pattern(pattern)
    except (BadTag, TypeError):
        return f"{pattern!r} is not a tag pattern."
    if pattern.lower().startswith(tags.RESERVED):
        return f"{pattern!r} begins with a reserved word; the system's own tags have no owner's answer."
    return ""


def _bad_pattern(problem: str) -> Error:
    return Error(f"INBOX_OWNER_TAGS: {problem}", hint='INBOX_OWNER_TAGS = ["note:*"]', id="inbox.E003")
