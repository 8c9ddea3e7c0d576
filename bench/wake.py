"""How soon an answer wakes its agent: `python -m bench.wake`, on PostgreSQL and Redis, with a real worker process.

An item is resolved; the clock runs to the first statement of the turn that reads it, the claim. Beside it, in the same run, on
the same broker and worker, in turns: the least that any design does, a row committed, `delay()`, the task starts and claims the
row. Two figures of ours, since `resolve` returns only when the bell has been rung:
from its return (what its caller waits for beyond its own call; promised: p50 within 1.5 of the bare one), and from the commit of
the answer, which has the whole wake in it: conversation locked, item flagged, turn queued, committed, rung.

Both processes read the same monotonic clock of the machine.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from typing import Any

from bench import scratch

MOST = 1.5
REDIS = os.environ.get("REDIS_URL") or "redis://127.0.0.1:6379/15"
QUEUE = os.environ.get("GLOVE_QUEUE") or f"glove_bench_{os.getpid()}"
PATIENCE_S = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.wake", description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--worker", action="store_true", help="be the worker; for the bench itself")
    given = parser.parse_args()
    if given.worker:
        return work()
    with scratch.database(f"glove_bench_wake_{os.getpid()}") as url:
        scratch.set_up(
            url, REDIS_URL=REDIS, GLOVE_QUEUE=QUEUE, GLOVE_DEMO="0", LOG_LEVEL="ERROR", GLOVE_WORKER_THREADS="8"
        )
        return compare(given.rounds)


# --- The worker's side
def work() -> int:
    """A worker as in production, which also tells when it claims."""
    import django

    django.setup()
    import redis
    from celery import shared_task
    from django.db import connection

    from agents.services import hot
    from glove_site.celery import app

    declare()
    told = redis.Redis.from_url(REDIS)
    claim = hot.claim

    def timed_claim(turn: int, lease_s: float) -> Any:
        began = time.monotonic_ns()
        claimed = claim(turn, lease_s)
        told.rpush(QUEUE + ":told", f"turn {turn} {began}")
        return claimed

    hot.claim = timed_claim

    @shared_task(name="bench.bare")
    def bare(row: int) -> None:
        began = time.monotonic_ns()
        with connection.cursor() as cursor:
            cursor.execute("UPDATE bench_row SET status = 'running' WHERE id = %s AND status = 'queued'", [row])
        told.rpush(QUEUE + ":told", f"bare {row} {began}")

    app.worker_main(["worker", "-P", "threads", "--loglevel", "ERROR", "-n", f"{QUEUE}@%h"])
    return 0


# --- The resolver's side
def compare(rounds: int) -> int:
    import redis

    declare()
    told = redis.Redis.from_url(REDIS)
    alone = told.dbsize() == 0  # then what Celery leaves for itself can go too
    command = [sys.executable, "-m", "bench.wake", "--worker"]
    worker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        ours, bare = Ours(told), Bare(told)
        ours.run(patience_s=60)  # until the worker is there
        for _ in range(20):
            ours.run()
            bare.run()
        figures = [(*ours.run(), bare.run()) for _ in range(rounds)]
    finally:
        worker.terminate()
        worker.wait(40)
        told.delete(QUEUE, *_left_behind(told, alone))
    after_return, after_commit, least = ([round_[place] for round_ in figures] for place in range(3))
    print(f"{scratch.machine()}; {rounds} rounds")
    for name, times in (
        ("bare: commit, delay(), claim", least),
        ("ours, from resolve's return", after_return),
        ("ours, from the answer's commit", after_commit),
    ):
        ratio = statistics.median(times) / statistics.median(least)
        p95 = statistics.quantiles(times, n=20)[-1]
        print(
            f"{name:<31} p50 {statistics.median(times):6.2f} ms   p95 {p95:6.2f} ms   p50 is {ratio:5.2f} of the bare one's"
        )
    ratio = statistics.median(after_return) / statistics.median(least)
    print(f"promised: from resolve's return at most {MOST} of the bare one")
    return 0 if ratio <= MOST else 1


class Ours:
    """A conversation whose item is resolved."""

    def __init__(self, told: Any) -> None:
        from inbox import signals

        self.told = told
        self.committed = 0
        send = signals.mailbox_ready.send_robust

        def timed_send(*args: Any, **kwargs: Any) -> Any:
            self.committed = time.monotonic_ns()
            return send(*args, **kwargs)

        signals.mailbox_ready.send_robust = timed_send  # type: ignore[method-assign]

    def run(self, patience_s: float = PATIENCE_S) -> tuple[float, float]:
        """Milliseconds to the claim, from the return of resolve and from the commit of the answer."""
        from agents.models import Turn
        from agents.services import conversations
        from inbox.models import Mailbox
        from inbox.services import items

        mailbox = Mailbox.objects.create(address=f"bench/{os.urandom(8).hex()}", agent="bench")
        talk = conversations.open_conversation(mailbox.pk)
        item = items.post(mailbox.pk, tag="approval:refund", request="May I?", origin=talk.pk)
        items.resolve(item.pk, "Yes.", by="ada", via="admin")
        returned = time.monotonic_ns()
        claimed = _heard(self.told, f"turn {Turn.objects.get(conversation=talk).pk}", patience_s)
        ends = time.monotonic() + PATIENCE_S
        while Turn.objects.get(conversation=talk).status != "done":
            assert time.monotonic() < ends, "the turn is not done"
            time.sleep(0.005)
        return (claimed - returned) / 1e6, (claimed - self.committed) / 1e6


class Bare:
    """A row that is committed, and a task that claims it."""

    def __init__(self, told: Any) -> None:
        from celery import signature
        from django.db import connection

        self.told = told
        self.task = signature("bench.bare", app=_app())
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE bench_row (id bigserial PRIMARY KEY, status text NOT NULL)")

    def run(self) -> float:
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO bench_row (status) VALUES ('queued') RETURNING id")
            row = cursor.fetchone()[0]
        committed = time.monotonic_ns()
        self.task.delay(row)
        return (_heard(self.told, f"bare {row}", PATIENCE_S) - committed) / 1e6


def _left_behind(told: Any, alone: bool) -> list[Any]:
    """The keys that the broker's bindings made: all of them where the database was empty before."""
    return list(told.keys("*") if alone else told.keys(f"*{QUEUE}*"))


def _heard(told: Any, what: str, patience_s: float) -> int:
    """When the worker claimed this."""
    ends = time.monotonic() + patience_s
    while time.monotonic() < ends:
        if found := told.blpop(QUEUE + ":told", timeout=1):
            words, _, began = found[1].decode().rpartition(" ")
            if words == what:
                return int(began)
    raise TimeoutError(f"{what} was not claimed within {patience_s} s")


def _app() -> Any:
    from glove_site.celery import app

    return app


def declare() -> None:
    """An agent whose model answers at once."""
    from django.conf import settings

    from agents import Agent, registry

    if "bench" not in registry.agents:
        options = {
            "BACKEND": "agents.adapters.scripted.ScriptedModel",
            "OPTIONS": {"script": lambda messages, tools: "Done."},
        }
        settings.AGENT_MODELS = {**settings.AGENT_MODELS, "bench": options}
        Agent("bench", instructions="Be brief.", model="bench")


if __name__ == "__main__":
    raise SystemExit(main())
