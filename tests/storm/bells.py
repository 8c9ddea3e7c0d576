"""A broker of the storm's own: datagrams to the workers' sockets, some dropped, some tripled, some late."""

import random
import socket
import threading
from pathlib import Path

DROPPED, TRIPLED, REFUSED = 0.35, 0.25, 0.05


class Bells:
    """`ring` in place of agents.bell.ring; `listen` gives the turn ids that arrive at one worker."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def ring(self, turn_id: int, countdown: float = 0) -> bool:
        """Like the broker's: says whether the message left, not whether it arrives."""
        chance = self.random.random()
        if chance < REFUSED:
            return False
        times = 0 if chance < DROPPED else 3 if chance < DROPPED + TRIPLED else 1
        for _ in range(times):
            threading.Timer(countdown + self.random.uniform(0, 0.05), self._send, [turn_id]).start()
        return True

    def close(self) -> None:
        self._socket.close()

    def _send(self, turn_id: int) -> None:
        doors = list(self.folder.glob("door-*"))
        try:
            self._socket.sendto(str(turn_id).encode(), str(random.choice(doors)))
        except (OSError, IndexError):
            pass  # nobody there, dead, or stopped with its queue full: dropped

    def listen(self, name: str):
        door = self.folder / f"door-{name}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.bind(str(door))
            listener.settimeout(0.2)
            while True:
                try:
                    yield int(listener.recv(100))
                except TimeoutError:
                    yield None
