"""The turns' doorbell: "look at this turn now". The row is the truth; what is not rung is found by the sweep."""

import threading
from typing import Any

from django.conf import settings

from inbox import bell

RUN_TURN = "agents.tasks.run_turn"
WAKE_UNRUNG = "agents.tasks.wake_unrung"

# Set by a worker that runs in this process. Without one, nobody would ever hear a bell that hangs in this process' memory.
listened = False

_lock = threading.Lock()
_rung = 0
_failed = 0


def ring(turn_id: int, countdown: float = 0.0) -> bool:
    """Ask a worker to run the turn, `countdown` seconds from now. Whether the broker took it; never raises. After commit."""
    global _rung, _failed
    taken = (listened or not is_in_memory()) and bell.ring(RUN_TURN, [turn_id], countdown=countdown)
    with _lock:
        _rung += taken
        _failed += not taken
    return taken


def is_in_memory() -> bool:
    """Whether bells hang in the memory of this process, and end with it."""
    return str(settings.CELERY_BROKER_URL).startswith("memory:")


def ring_wakes(sender: Any = None, **kwargs: Any) -> bool:
    """Ask a worker to wake whoever has unrung mail. Receiver of inbox.signals.many_ready; the sweep does it where this fails."""
    return bell.ring(WAKE_UNRUNG, [])


def counts() -> tuple[int, int]:
    """How many bells of this process the broker took, and how many it did not."""
    return _rung, _failed
