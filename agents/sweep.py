"""The agents' part of the sweep: ring every due turn, and while the broker does not answer run a few of them here.

A turn that runs here runs outside the sweep's claim, in threads of its own: claims of turns are atomic anyway, and a turn
may take minutes.
"""

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from django.db import connections

from agents import bell, stopping
from agents.services import turns

log = logging.getLogger(__name__)

BATCH = 50  # turns that are rung at once while the broker answers
SLOTS = 4  # turns that run here at once while it does not


class Slots:
    """A few threads that run turns whose doorbell could not be rung."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._executor = ThreadPoolExecutor(size, thread_name_prefix="sweep-turn")
        self._lock = threading.Lock()
        self._taken = 0

    @property
    def free(self) -> int:
        """How many turns could begin at once."""
        return max(0, self.size - self._taken)

    def run(self, turn_id: int) -> None:
        """Run the turn as soon as a thread is free. Here too the row is the truth: a lost call is rung again later."""
        self._add(1)
        self._executor.submit(self._run, turn_id)

    def drain(self, timeout_s: float) -> bool:
        """Wait until nothing runs here; whether that came true in time."""
        ends = time.monotonic() + timeout_s
        while self._taken and time.monotonic() < ends:
            time.sleep(0.05)
        return not self._taken

    def _run(self, turn_id: int) -> None:
        try:
            if not stopping.flag.is_set():
                turns.start(turn_id)
        except Exception:
            log.exception("Turn %s stopped with a fault; it is found again when its lease lapses.", turn_id)
        finally:
            connections.close_all()
            self._add(-1)

    def _add(self, number: int) -> None:
        with self._lock:
            self._taken += number


slots = Slots(SLOTS)
_broker_answers = True  # what the last ring of this process' sweep showed


def ring_due_turns() -> int:
    """Ring the turns that are due; run those that could not be rung. Returns how many were found.

    While the broker is silent only as many are taken as can run at once, so that other processes find the rest.
    """
    global _broker_answers
    limit = BATCH if _broker_answers else slots.free
    found = turns.due_turns(limit) if limit and not stopping.flag.is_set() else []
    if limit and not found:
        _broker_answers = True  # nothing is left to run here: the next pass tries the broker first
    for turn_id in found:
        _broker_answers = bell.ring(turn_id)
        if not _broker_answers:
            slots.run(turn_id)
    return len(found)


def begin() -> None:
    """As a worker starts: what a process rang in its own memory, and did not come to before it ended, is rung again now."""
    if bell.is_in_memory():
        turns.bells_are_gone()
        ring_due_turns()


def is_helping() -> bool:
    """Whether this process runs turns itself because the broker does not answer, and should look again soon."""
    return not _broker_answers
