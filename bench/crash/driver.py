"""One run: servers, site, people; blows at the points, outages, a deploy; and after each the count of what is wrong."""

import contextlib
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench.crash import counts, people, state
from bench.crash.points import BEAT, TOOLS, WEB
from bench.crash.processes import Process, Site
from bench.crash.servers import Postgres, Redis

LANES = ("kill", "stop")  # each has workers of its own
WORKERS_OF_LANE = 2
PEOPLE, PACE_S, TALKS = 3, 0.4, 8
REACHED_S = 40
SETTLED_S = 90
STOPPED_S = 35


@dataclass
class Line:
    """A line of the table: what was done, how often, and what was found afterwards."""

    name: str
    kills: int = 0
    stops: int = 0
    missed: int = 0
    found: counts.Found | None = None


class Driver:
    """The site under trial. `settle_and_look` may be called again and again: the data stays."""

    def __init__(
        self,
        site: Site,
        redis: Redis,
        postgres: Postgres | None,
        *,
        seed: int,
        lease_s: float,
    ) -> None:
        self.site, self.redis, self.postgres, self.lease_s = site, redis, postgres, lease_s
        self.random = random.Random(seed)
        self.accepted = people.Accepted()
        self.lanes: dict[str, list[Process]] = {}
        self.others: dict[str, Process] = {}
        self.guards = {kind: threading.Lock() for kind in ("web", "beat")}
        self.seed = seed

    # --- Setting up
    def start(self) -> None:
        key = state.prepare()
        self.others = {kind: self.site.start(kind) for kind in ("web", "beat")}
        self.lanes = {lane: [self.site.start("worker") for _ in range(WORKERS_OF_LANE)] for lane in LANES}
        for process in self.workers + list(self.others.values()):
            process.wait_ready()
        self.api = people.Site(self.site.web_port, key)
        self.talks = [self._open(n) for n in range(TALKS)]
        self.people = [people.Person(n, self.seed, self.api, self.talks, self.accepted, PACE_S) for n in range(PEOPLE)]
        for person in self.people:
            person.start()

    def _open(self, number: int) -> tuple[str, str]:
        status, talk = self.api.post("/conversations", {"agent": "crash", "mailbox": f"crash/ada/{number}"})
        if status != 201:
            raise RuntimeError(f"no conversation: {status} {talk}")
        return talk["id"], talk["mailbox"]

    @property
    def workers(self) -> list[Process]:
        return [worker for lane in self.lanes.values() for worker in lane]

    def end(self) -> None:
        for person in getattr(self, "people", []):
            person.halt.set()

    # --- Blows
    def strike(self, line: Line, point: str, tool: str, times: int, lanes: tuple[str, ...] = LANES) -> None:
        """At this point, so many times in each lane."""
        threads = [
            threading.Thread(target=self._lane, args=(lane, line, point, tool, times), daemon=True) for lane in lanes
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _lane(self, lane: str, line: Line, point: str, tool: str, times: int) -> None:
        for _ in range(times):
            if point in (WEB, BEAT):
                kind = "web" if point == WEB else "beat"
                with self.guards[kind]:
                    self._blow(lane, line, f"{point} {tool}".strip(), [self.others[kind]])
            else:
                self._blow(lane, line, f"{point} {tool}".strip(), self.lanes[lane])

    def _blow(self, lane: str, line: Line, armed: str, among: list[Process]) -> None:
        """Arm them; whoever gets there first is killed, or stopped for twice its lease."""
        ready = [process for process in among if process.ready]
        ends = time.monotonic() + REACHED_S
        while not ready and time.monotonic() < ends:
            time.sleep(0.1)
            ready = [process for process in among if process.ready]
        self.random.shuffle(ready)
        for process in ready:
            process.arm(armed)
        while not any(process.is_at() for process in ready) and time.monotonic() < ends:
            time.sleep(0.01)
        there = next((process for process in ready if process.is_at()), None)
        for process in ready:
            if process is not there:
                process.disarm()
        if there is None:
            line.missed += 1
        elif lane == "kill":
            there.kill()
            line.kills += 1
            self._replace(there)
        else:
            there.pause(2 * self.lease_s)
            line.stops += 1
        for process in ready:
            process.reset()

    def _replace(self, gone: Process) -> None:
        new = self.site.start(gone.kind)
        if gone.kind == "worker":
            lane = next(lane for lane in self.lanes.values() if gone in lane)
            lane[lane.index(gone)] = new
        else:
            self.others[gone.kind] = new.wait_ready()

    # --- Outages and a deploy
    def redis_outage(self, times: int) -> None:
        for _ in range(times):
            self.redis.flush()
            time.sleep(2)
            self.redis.stop()
            time.sleep(3 * self.lease_s)
            self.redis.start()
            time.sleep(2)

    def sessions_ended(self, times: int) -> None:
        """Every session of the database, as an operator or a failover would end them."""
        from django.db import connection

        for _ in range(times):
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND pid <> pg_backend_pid()"
                )
            time.sleep(3)

    def postgres_restarted(self, times: int) -> None:
        from django.db import connections

        connections.close_all()
        for _ in range(times):
            if self.postgres:
                self.postgres.restart_at_once()
            time.sleep(4)

    def deploy(self, times: int) -> list[str]:
        """SIGTERM to all workers, then new ones. Returns what went wrong: a worker that did not leave well, a call that became
        unknown by it."""
        wrong = []
        before = state.unknown()
        for _ in range(times):
            old = self.workers
            for worker in old:
                worker.wait_ready()
            time.sleep(1)
            for worker in old:
                worker.ask_to_stop()
            codes = [worker.wait(STOPPED_S) for worker in old]
            wrong += [f"{worker.name} ended with {code}" for worker, code in zip(old, codes, strict=True) if code != 0]
            for worker in old:
                self._replace(worker)
        with self.at_rest():
            now = state.unknown()
        return [*wrong, f"{now - before} calls became unknown"] if now > before else wrong

    # --- The end of each
    def settle_and_look(self) -> counts.Found:
        """Nobody begins anything; what is open comes to its end; then everything is counted."""
        logs = [process.log for process in self.site.started]
        with self.at_rest() as unsettled:
            found = counts.look(self.accepted, unsettled, self.site.folder / "effects", logs)
        found.add("illegal", self.accepted.unexpected)
        return found

    @contextlib.contextmanager
    def at_rest(self) -> Iterator[list[str]]:
        """People only answer, and nothing is open. Yields what is open all the same after SETTLED_S, in words."""
        for person in self.people:
            person.silent = True
        for process in [*self.workers, *self.others.values()]:
            process.wait_ready()
        try:
            yield self._wait_settled()
        finally:
            for person in self.people:
                person.silent = False

    def _wait_settled(self) -> list[str]:
        ends = time.monotonic() + SETTLED_S
        quiet = 0
        while time.monotonic() < ends:
            busy = state.unsettled()
            quiet = 0 if busy else quiet + 1
            if quiet == 3:  # a person's answer may just be under way
                return []
            for talk in state.to_retry():
                self.api.post(f"/conversations/{talk}/retry")
            time.sleep(0.3)
        return busy


def cases(point: str) -> tuple[str, ...]:
    """The tools of which the point is a case of its own."""
    return TOOLS if point.endswith(" tool") else ("",)
