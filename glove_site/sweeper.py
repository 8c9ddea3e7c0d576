"""The sweep in every worker process: a Celery bootstep, so that it needs neither beat nor broker.

Works in `celery worker -P threads` and in the worker that `manage.py serve` embeds.
"""

import logging
import threading
from typing import Any

from celery import bootsteps
from django.conf import settings
from django.db import connections

from agents import bell
from agents import sweep as agents_sweep
from glove_site import stopping
from inbox import sweep

log = logging.getLogger(__name__)

HELPING_S = 1.5  # between looks while the broker is silent and turns are run here
JOIN_S = {sweep.QUICK: 20, sweep.SLOW: 5}  # what a slow job was about is leased, and taken up again


class Sweeper(threading.Thread):
    """Runs a pass over one lane every SWEEP_EVERY_S, counted over all processes: whoever comes first takes it."""

    def __init__(self, lane: str = sweep.QUICK) -> None:
        super().__init__(name=f"{lane}sweeper", daemon=True)
        self.lane = lane
        self.halt = threading.Event()

    def run(self) -> None:
        pause: float = 0
        act = self.begin
        while not self.halt.wait(pause):
            try:
                pause, act = act(), self.look
            except Exception:
                log.exception("The sweep could not look; it tries again.")
                pause = settings.SWEEP_EVERY_S
            finally:
                connections.close_all()

    def begin(self) -> float:
        """What a process that ended has left; the first look comes at once."""
        if self.lane == sweep.QUICK:
            agents_sweep.begin()
        return 0

    def look(self) -> float:
        """Run a pass if one is due; returns the seconds until the next look."""
        every = settings.SWEEP_EVERY_S
        swept = sweep.run_pass(after_s=every, stopping=self.halt.is_set, lanes=[self.lane])
        if self.lane == sweep.QUICK and agents_sweep.is_helping():
            if not swept:
                agents_sweep.ring_due_turns()
            return HELPING_S
        age = sweep.age_s(self.lane)
        # Another process' pass sets our time too, so that passes do not bunch, and none is missed when that process dies.
        return min(every, max(0.2, every - age)) if age is not None else every


class SweepStep(bootsteps.StartStopStep):
    """Starts before the consumer, which may wait for a broker, and stops before the pool."""

    requires = {"celery.worker.components:Pool"}

    def __init__(self, worker: Any, **kwargs: Any) -> None:
        super().__init__(worker, **kwargs)
        self.sweepers: list[Sweeper] = []

    def start(self, worker: Any) -> None:
        bell.listened = True
        self.sweepers = [Sweeper(lane) for lane in (sweep.QUICK, sweep.SLOW)]
        for sweeper in self.sweepers:
            sweeper.start()

    def close(self, worker: Any) -> None:
        """Comes first of all: what is handed back after this must not be rung again from here."""
        stopping.begin()
        for sweeper in self.sweepers:
            sweeper.halt.set()

    def stop(self, worker: Any) -> None:
        for sweeper in self.sweepers:
            sweeper.join(JOIN_S[sweeper.lane])
        agents_sweep.slots.drain(JOIN_S[sweep.QUICK])

    terminate = stop
