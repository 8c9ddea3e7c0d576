"""The named points, inside the processes that are killed and stopped there. Product code knows nothing of this: what it calls at
each point is wrapped here, when CRASH_FOLDER is set.

The driver arms a process by writing a point's name to a file. The first thread that reaches the point takes the file away, says
that it is there, and stands still: it is now up to the driver's signal.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

POINTS = (
    "after the claim",
    "before the receive transaction",
    "in the receive transaction",
    "after the receive transaction",
    "in a model call",
    "before the reply's commit",
    "after the reply's commit",
    "before a tool",
    "in a tool",
    "after a tool",
    "in compaction",
    "between resolve and doorbell",
    "in the sweep",
    "in beat",
)
TOOLS = ("plain", "idem", "atom")  # of which each is a case of its own at the points of tools
TABLE = "crash_effect"  # where the atomic tool writes
WEB, BEAT = "between resolve and doorbell", "in beat"  # points of other processes than the workers

FOLDER = os.environ.get("CRASH_FOLDER", "")
NAME = os.environ.get("CRASH_NAME", "")
_armed = f"{FOLDER}/{NAME}.armed"
_hit = f"{FOLDER}/{NAME}.hit"
_go = f"{FOLDER}/{NAME}.go"


def at(point: str, tool: str = "") -> None:
    """Stand still here, if the driver has asked this process to."""
    try:
        if Path(_armed).read_text() != f"{point} {tool}".strip():
            return
        os.rename(_armed, _hit)  # one thread wins
    except OSError:
        return
    while not os.path.exists(_go):
        time.sleep(0.005)


def install() -> None:
    """Wrap what the product calls at each point."""
    from agents import bell
    from agents.services import hot, journal, waking
    from agents.stores.database import DatabaseStore
    from inbox import sweep
    from inbox.services import reading

    run = journal.TurnRun
    _wrap(hot, "claim", after=lambda claim: at("after the claim") if claim else None)
    _wrap(
        run,
        "receive",
        before=lambda: at("before the receive transaction"),
        after=lambda _: at("after the receive transaction"),
    )
    _wrap(reading, "take", after=lambda _: at("in the receive transaction"))
    _wrap(hot, "insert_message", after=lambda _: at("before the reply's commit"))
    _wrap(run, "commit", after=lambda _: at("after the reply's commit"))
    _wrap(run, "finish", after=lambda _: at("after the reply's commit"))
    _wrap(DatabaseStore, "summary_text", after=lambda _: at("in compaction"))
    _wrap(sweep, "_run", before=lambda: at("in the sweep"))
    _wrap(waking, "wake", before=lambda: at("between resolve and doorbell"))
    _wrap(bell, "ring", before=lambda: at("between resolve and doorbell"))
    for name in ("begin", "run_atomic"):
        _wrap_call(run, name, "before a tool", first=True)
    for name in ("settle", "run_atomic"):
        _wrap_call(run, name, "after a tool", first=False)
    _install_in_beat()


def _install_in_beat() -> None:
    from celery.beat import Scheduler

    _wrap(Scheduler, "apply_async", before=lambda: at("in beat"))


def _wrap(owner: Any, name: str, *, before: Callable[[], Any] = int, after: Callable[[Any], Any] = bool) -> None:
    real = getattr(owner, name)

    def wrapped(*args: Any, **options: Any) -> Any:
        before()
        result = real(*args, **options)
        after(result)
        return result

    setattr(owner, name, wrapped)


def _wrap_call(owner: Any, name: str, point: str, *, first: bool) -> None:
    """A step of a tool call: the second argument is the call."""
    real = getattr(owner, name)

    def wrapped(self: Any, call: Any, *args: Any, **options: Any) -> Any:
        if first:
            at(point, call.name)
        result = real(self, call, *args, **options)
        if not first:
            at(point, call.name)
        return result

    setattr(owner, name, wrapped)
