"""Tells nobody."""

from collections.abc import Sequence

from inbox.models import Item
from inbox.notifiers.base import BaseNotifier


class NullNotifier(BaseNotifier):
    """For sites whose staff look at the queue by themselves."""

    sends = False

    def send(self, item: Item, recipients: Sequence[str]) -> None:
        """Nothing."""
