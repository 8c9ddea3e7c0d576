"""How a message travels to a peer: `MESH_TRANSPORTS`, as Django's CACHES."""

import abc
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string


class Transport(abc.ABC):
    """Takes a message and the queued deliveries that were made for it, in the sender's transaction.

    `in_transaction`: recipients are rows of this database, and get their letters in the sender's transaction; nothing is queued.
    """

    in_transaction: ClassVar[bool] = False

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options

    @abc.abstractmethod
    def send(self, message: Any, deliveries: Sequence[int]) -> None:
        """Deliver, or see to it that mesh.services.delivering.deliver or bury is called for each one later. The sweep delivers
        what is still queued."""


@cache
def get_transport(alias: str = "default") -> Transport:
    """The transport of this alias. Raises ImproperlyConfigured."""
    try:
        entry: dict[str, Any] = settings.MESH_TRANSPORTS[alias]
        return import_string(entry["BACKEND"])(entry.get("OPTIONS", {}))
    except (KeyError, ImportError) as error:
        raise ImproperlyConfigured(f"MESH_TRANSPORTS[{alias!r}]: {error}") from error


def _forget(*, setting: str, **kwargs: Any) -> None:
    if setting == "MESH_TRANSPORTS":
        get_transport.cache_clear()


setting_changed.connect(_forget, dispatch_uid="mesh.transports.forget")
