"""Kill and stop the site's processes at named points, and count what is wrong afterwards: `python -m bench.crash`.

Real workers, a real web process and a real beat, on a PostgreSQL and a Redis of their own. At each point a process gets SIGKILL,
and another SIGSTOP for twice its lease and then SIGCONT. Then sessions of the database are ended, PostgreSQL is restarted
immediately, Redis is emptied and stopped, all in mid-load; then all workers get SIGTERM, as in a deploy. All counts must be 0.
"""

import argparse
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.crash.points import POINTS
from bench.crash.reaper import Reaper

TIMES = {"LEASE": 2.0, "SWEEP_EVERY": 1.0, "RING_AGAIN": 3.0}
HEAD = """\
| where | SIGKILL | SIGSTOP | not reached | lost | doubled | illegal | stuck | orphaned |
|---|---|---|---|---|---|---|---|---|"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench.crash", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--long", action="store_true", help="every point 20 times, and a look at the data after each point"
    )
    parser.add_argument("--times", type=int, help="how often each point (1, or 20 with --long)")
    parser.add_argument("--seed", type=int, help="draws the same acts and blows again, though not the same races")
    parser.add_argument("--only", metavar="WORDS", help="points that hold these words; 'outages' for those alone")
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and effects")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1, 10**6)
    folder = Path(tempfile.mkdtemp(prefix="glove-crash-"))
    print(f"seed {seed}, commit {_commit()}, {folder}", flush=True)
    good, reaper = False, Reaper(folder)
    try:
        good = _run(folder, seed, given, reaper)
    finally:
        reaper.done(keep=given.keep or not good)
    return 0 if good else 1


def _run(folder: Path, seed: int, given: argparse.Namespace, reaper: Any) -> bool:
    from bench.crash import servers
    from bench.crash.processes import Site

    redis = servers.Redis(reaper)
    with servers.postgres(folder, reaper) as (url, postgres):
        site = Site(folder, url, redis.url, servers.free_port(), TIMES, reaper)
        try:
            redis.start()
            os.environ.update({name: value for name, value in site.environment.items() if not name.startswith("CRASH")})
            os.environ["LOG_LEVEL"] = "ERROR"
            import django

            django.setup()
            from bench.crash.driver import Driver

            driver = Driver(site, redis, postgres, seed=seed, lease_s=TIMES["LEASE"])
            driver.start()
            good = _trials(driver, given, seed)
            driver.end()
            return good
        finally:
            site.end()
            redis.stop()
            from django.db import connections

            connections.close_all()


def _trials(driver: Any, given: argparse.Namespace, seed: int) -> bool:
    from bench.crash.driver import Line, cases

    began, good = time.monotonic(), True
    times = given.times or (20 if given.long else 1)
    points = [point for point in POINTS if not given.only or given.only in point]
    print(HEAD, flush=True)
    lines = []
    for point in points:
        tools = cases(point)
        if not given.long:
            tools = (tools[seed % len(tools)],)  # in turn, by the seed
        for tool in tools:
            line = Line(f"{point} ({tool})" if tool else point)
            driver.strike(line, point, tool, times)
            lines.append(line)
            if given.long:
                line.found = driver.settle_and_look()
                good &= _show(line)
    if lines and not given.long:
        found = driver.settle_and_look()
        for line in lines:
            line.found = found
            good &= _show(line)
    for name, act in () if given.only and given.only != "outages" else _outages(driver):
        line = Line(name)
        wrong = act(1 if not given.long else 5) or []
        line.found = driver.settle_and_look()
        line.found.add("illegal", wrong)
        good &= _show(line, plain=True)
    _summary(driver, time.monotonic() - began)
    return good


def _outages(driver: Any) -> Iterator[tuple[str, Callable[[int], list[str] | None]]]:
    yield "Redis emptied, then stopped for three leases", driver.redis_outage
    yield "every session of PostgreSQL ended", driver.sessions_ended
    if driver.postgres:
        yield "PostgreSQL restarted immediately", driver.postgres_restarted
    yield "SIGTERM to all workers, new ones started", driver.deploy


def _show(line: Any, *, plain: bool = False) -> bool:
    numbers = ["–", "–", "–"] if plain else [line.kills, line.stops, line.missed]
    print("| " + " | ".join(str(cell) for cell in [line.name, *numbers, *line.found.counts]) + " |", flush=True)
    for kind, words in line.found.wrong.items():
        for word in words[:20]:
            print(f"    {kind}: {word}", flush=True)
    return not any(line.found.counts) and not line.missed


def _summary(driver: Any, seconds: float) -> None:
    found = driver.settle_and_look()
    facts = ", ".join(f"{name} {number}" for name, number in found.totals.items())
    print(
        f"\n{facts}; refused {driver.accepted.refused}; {len(driver.accepted.perhaps)} without an answer; {seconds:.0f} s"
    )


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    raise SystemExit(main())
