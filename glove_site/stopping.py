"""Stopping gracefully: turns hand themselves back at their next boundary; whoever does not hear is left behind."""

import logging
import os
import threading

from agents import stopping

log = logging.getLogger(__name__)

GRACE_S = 28  # supervisors commonly send SIGKILL after 30
_guard: threading.Timer | None = None


def begin() -> None:
    """Ask everything in this process to stop, and end the process if it has not done so by itself in GRACE_S."""
    stopping.flag.set()
    start_guard()


def start_guard() -> None:
    """End the process in GRACE_S seconds: a tool that ignores the flag must not hold up the exit for ever."""
    global _guard
    if _guard is None:
        _guard = threading.Timer(GRACE_S, _leave)
        _guard.daemon = True
        _guard.start()


def call_off() -> None:
    """Take it all back; for a process that goes on, as tests do."""
    global _guard
    if _guard is not None:
        _guard.cancel()
        _guard = None
    stopping.flag.clear()


def _leave() -> None:
    log.error(
        "Something did not stop within %s s; leaving without it. Its turn is taken up when its lease lapses.", GRACE_S
    )
    os._exit(1)
