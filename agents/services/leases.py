"""Keeping the leases of this process's running turns: one thread, one connection, one UPDATE for all of them."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from agents.services import hot

log = logging.getLogger(__name__)

IDLE_S = 30.0
_held: dict[int, float] = {}  # token -> seconds of its lease
_guard = threading.Lock()
_shorter = threading.Event()  # a lease shorter than those that the thread sleeps for
_thread: threading.Thread | None = None


@contextmanager
def kept(token: int, lease_s: float) -> Iterator[None]:
    """While inside, the lease is renewed at every third of its length. A stopped process renews nothing, and is taken over."""
    global _thread
    with _guard:
        if lease_s < min(_held.values(), default=IDLE_S):
            _shorter.set()
        _held[token] = lease_s
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_keep, name="leases", daemon=True)
            _thread.start()
    try:
        yield
    finally:
        with _guard:
            _held.pop(token, None)


def _keep() -> None:
    due = time.monotonic() + IDLE_S
    while True:
        with _guard:
            shortest = min(_held.values(), default=IDLE_S)
            _shorter.clear()
        # Never later than was due: turns with short leases that come and go must not put off the others' renewal.
        due = min(due, time.monotonic() + shortest / 3)
        if _shorter.wait(max(due - time.monotonic(), 0)):
            continue
        due = time.monotonic() + IDLE_S
        with _guard:
            held = dict(_held)
        for lease_s in set(held.values()):
            _renew([token for token, seconds in held.items() if seconds == lease_s], lease_s)


def _renew(tokens: list[int], lease_s: float) -> None:
    try:
        hot.renew(tokens, lease_s)
    except Exception:  # the database may be away: the turns notice by themselves at their next write
        log.warning("Leases were not renewed", exc_info=True)
    finally:
        connection.close()
