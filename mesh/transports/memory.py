"""For tests: a message waits in this process until `pump` delivers it, loses it or delivers it twice, as the test wishes."""

from collections.abc import Sequence
from typing import Any, ClassVar

from mesh.transports import Transport


class MemoryTransport(Transport):
    """Deliveries on their way, in `queue`."""

    queue: ClassVar[list[int]] = []

    def send(self, message: Any, deliveries: Sequence[int]) -> None:
        """See Transport."""
        self.queue.extend(deliveries)

    @classmethod
    def pump(cls) -> int:
        """Deliver what is on its way; returns how many arrived for the first time."""
        from mesh.services.delivering import deliver  # which asks for the transport

        on_their_way, cls.queue[:] = list(cls.queue), []
        return sum(deliver(pk) for pk in on_their_way)
