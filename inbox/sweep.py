"""The sweep: it finds by itself, from the rows, whatever a doorbell asked for and was lost.

Each app registers its jobs when Django starts. A pass runs them one after another, each guarded by itself. One pass runs at
a time: it holds a claim, which is one row of `Sweep` and one conditional UPDATE. A pass that died holds it for
SWEEP_EVERY_S at most; one that takes longer may meet another, which is harmless, since every row is guarded by itself.
Jobs that talk to others (mail, resolvers) have a lane of their own, with its own claim: a mail server that hangs must not hold
up the wakes.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import InterfaceError, InternalError, OperationalError, connection
from django.db.models import DurationField, ExpressionWrapper, F

from inbox.clock import clock
from inbox.models import Sweep
from inbox.services import passes

log = logging.getLogger(__name__)

QUICK, SLOW, CLAIM, PASS = passes.QUICK, passes.SLOW, passes.CLAIM, passes.PASS
FAILED = -1  # in a pass's counts: the job raised
ROUNDS = 20  # a job that still finds rows is called again, so often at most in one pass
INFRASTRUCTURE = (OperationalError, InternalError, InterfaceError)


@dataclass(frozen=True)
class Job:
    """Something that a lost doorbell would have asked for."""

    name: str
    act: Callable[[], int]  # returns how many rows it moved
    lane: str


_jobs: dict[str, Job] = {}


def register(name: str, act: Callable[[], int], *, slow: bool = False) -> None:
    """Have each pass call `act`, which returns how many rows it moved; it is called again while it finds some.

    `slow`: it talks to others, who may take their time.
    """
    _jobs[name] = Job(name, act, SLOW if slow else QUICK)


def jobs(lanes: Sequence[str] = (QUICK, SLOW)) -> list[Job]:
    """What a pass over these lanes runs, in this order."""
    return [job for lane in lanes for job in _jobs.values() if job.lane == lane]


def run_pass(
    after_s: float = 0, stopping: Callable[[], bool] = lambda: False, lanes: Sequence[str] = (QUICK, SLOW)
) -> dict[str, int]:
    """One pass over the jobs of these lanes: how many rows each moved, FAILED where it raised.

    A lane is left out when another pass over it is under way, or when one began less than `after_s` seconds ago.
    `stopping` is asked between jobs; a pass that is told to stop leaves the rest to the next one.
    """
    counts: dict[str, int] = {}
    for lane in lanes:
        with _claimed(lane, after_s) as mine:
            for job in jobs([lane]) if mine else []:
                if stopping():
                    break
                counts[job.name] = _run(job, stopping)
    return counts


def age_s(lane: str = QUICK) -> float | None:
    """Seconds since a pass last began, by the database's clock; None when none ever did."""
    age = ExpressionWrapper(clock() - F("began_at"), output_field=DurationField())
    found: timedelta | None = (
        Sweep.objects.filter(name=lane + PASS).annotate(age=age).values_list("age", flat=True).first()
    )
    return found.total_seconds() if found is not None and found < timedelta(seconds=passes.LONG_AGO_S / 2) else None


def _run(job: Job, stopping: Callable[[], bool]) -> int:
    moved = 0
    try:
        for _ in range(ROUNDS):
            found = job.act()
            moved += found
            if not found or stopping():
                break
    except Exception as error:
        log.exception("The sweep's job %s failed; the others go on.", job.name)
        if isinstance(error, INFRASTRUCTURE):
            connection.close()
        return FAILED
    return moved


@contextmanager
def _claimed(lane: str, after_s: float) -> Iterator[bool]:
    """Whether the pass is ours. Given back at the end, unless it lapsed meanwhile and may be another's."""
    lapses = time.monotonic() + settings.SWEEP_EVERY_S
    mine = passes.claim(lane, after_s)
    try:
        yield mine
    finally:
        if mine and time.monotonic() < lapses:
            passes.release(lane)
