"""Every peer of this database: message, deliveries and the recipients' items are one transaction."""

from collections.abc import Sequence
from typing import Any, ClassVar

from mesh.transports import Transport


class DatabaseTransport(Transport):
    """Delivered by the sender's own statements, so there is nothing to send."""

    in_transaction: ClassVar[bool] = True

    def send(self, message: Any, deliveries: Sequence[int]) -> None:
        """See Transport."""
