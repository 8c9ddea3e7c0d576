"""Adapters that tell staff of new requests, configured as `INBOX_NOTIFIERS`: alias -> BACKEND and OPTIONS."""

from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from inbox.notifiers.base import BaseNotifier


def get_notifier(alias: str) -> BaseNotifier:
    """The notifier of this alias, made anew. Raises KeyError for an unknown alias, ImportError for an unknown backend."""
    config: dict[str, Any] = settings.INBOX_NOTIFIERS[alias]
    notifier: BaseNotifier = import_string(config["BACKEND"])(alias, config.get("OPTIONS", {}))
    return notifier
