"""What a notifier is."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.core.checks import CheckMessage, Error

from inbox.models import Item


class TransportError(Exception):
    """A notice could not be sent. `permanent`: trying again would not help."""

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent


class BaseNotifier:
    """Tells people of an item that waits for their answer.

    A subclass supplies `send`. `sends` is false for one that tells nobody: no notification is recorded for it then.
    `option_types` names the OPTIONS that it takes and the type of each. The item is never its business beyond reading.
    """

    sends: ClassVar[bool] = True
    option_types: ClassVar[Mapping[str, type]] = {}

    def __init__(self, alias: str, options: Mapping[str, Any]) -> None:
        self.alias = alias
        self.options = options

    def send(self, item: Item, recipients: Sequence[str]) -> None:
        """Tell these people, given by their email addresses, of this item. Raises TransportError.

        It may be called again after a crash, so a notice may arrive twice. It should give up within a minute.
        """
        raise NotImplementedError

    def check(self) -> list[CheckMessage]:
        """What is wrong with the configuration, for `manage.py check`."""
        return [
            Error(
                f"INBOX_NOTIFIERS[{self.alias!r}]: {problem}",
                hint=f"It takes {', '.join(self.option_types) or 'no options'}.",
                id="inbox.E002",
            )
            for name, value in self.options.items()
            if (problem := self._wrong(name, value))
        ]

    def _wrong(self, name: str, value: Any) -> str:
        if name not in self.option_types:
            return f"{type(self).__name__} has no option {name!r}."
        if not isinstance(value, self.option_types[name]):
            return f"the option {name!r} must be of type {self.option_types[name].__name__}."
        return ""
