"""Every peer of this database: message, deliveries and the recipients' items are one transaction."""

from collections.abc import Sequence
from typing import Any, ClassVar

from mesh.transports import Transport


class DatabaseTransport(Transport):
    """Delivers there and then."""

    in_transaction: ClassVar[bool] = True

    def send(self, message: Any, deliveries: Sequence[int]) -> None:
        """See Transport."""
        from mesh.services.delivering import deliver  # which asks for the transport

        for pk in deliveries:
            deliver(pk)
