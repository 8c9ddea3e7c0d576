"""The storm: 2 worker processes of 8 threads each, people and services that act at random on shared mailboxes, doorbells
dropped and tripled, workers killed and stopped. Afterwards nothing is lost, doubled, illegal, stuck, out of order, deadlocked.

GLOVE_TEST_STORM_S is how long it blows (25), GLOVE_TEST_STORM_SEED draws the same acts again, though not the same races.
"""

import os
import random
import signal
import threading
import time
from collections import Counter

import pytest
from django.db import connection, connections

from agents import bell, registry
from agents.models import Conversation, Message, ToolCall, Turn
from agents.services import conversations
from inbox import invariants, sweep
from inbox.models import Item
from inbox.services import mailboxes
from tests.processes import until
from tests.storm import actors
from tests.storm.agent import declare
from tests.storm.bells import Bells

STORM_S = float(os.environ.get("GLOVE_TEST_STORM_S", "25"))
SEED = int(os.environ.get("GLOVE_TEST_STORM_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
WORKERS, ACTORS, MAILBOXES = 2, 5, 6
QUIET_WITHIN_S = 60
SHORT = {"GLOVE_LEASE_S": "1", "GLOVE_SWEEP_EVERY_S": "0.5", "GLOVE_RING_AGAIN_S": "1", "GLOVE_DEMO": "0"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def storm_agent():
    with registry.isolated():
        yield declare()


@pytest.fixture
def storm(start, child_environment, tmp_path, settings, monkeypatch, storm_agent):
    settings.AGENT_LIMITS = {"lease_s": 1}
    settings.SWEEP_EVERY_S, settings.RING_AGAIN_S, settings.IDLE_TRANSACTION_TIMEOUT_S = 0.5, 1, 3
    bells = Bells(tmp_path, SEED)
    monkeypatch.setattr(bell, "ring", bells.ring)
    yield Storm(start, {**child_environment, **SHORT, "STORM_JOURNAL": str(tmp_path / "journal")}, tmp_path)
    bells.close()


class Storm:
    """The processes and the people, and what they left behind."""

    def __init__(self, start, environment, folder):
        self.start, self.environment, self.folder = start, environment, folder
        self.random = random.Random(SEED)
        self.accepted = actors.Accepted()
        self.halt, self.counting = threading.Event(), threading.Lock()
        self.workers, self.logs, self.chaos = [], [], Counter()
        self.mailboxes = [mailboxes.open_mailbox(f"storm/{n}", agent="storm").pk for n in range(MAILBOXES)]
        for mailbox in self.mailboxes * 2:
            conversations.open_conversation(mailbox)
        connections.close_all()

    def worker(self):
        with self.counting:
            return self._worker(len(self.logs))

    def _worker(self, number):
        child = self.start(
            "-m", "tests.storm.worker", f"w{number}", str(self.folder), str(SEED + number), env=self.environment
        )
        child.door = self.folder / f"door-w{number}"
        self.logs.append(child)
        return child

    def blow(self, seconds):
        self.workers = [self.worker() for _ in range(WORKERS)]
        for worker in self.workers:
            worker.wait_for("listens")
        people = [actors.Actor(n, SEED, self.mailboxes, self.accepted, self.halt) for n in range(ACTORS)]
        for actor in people:
            actor.start()
        trouble = [threading.Thread(target=self.trouble, args=[place], daemon=True) for place in range(WORKERS)]
        for one in trouble:
            one.start()
        time.sleep(seconds)
        self.halt.set()
        for one in (*people, *trouble):
            one.join(90)
            assert not one.is_alive(), f"{one.name} hangs"

    def trouble(self, place):
        """What happens to one worker and its successors."""
        while not self.halt.wait(self.random.uniform(0.3, 1.5)):
            self.hurt(place)

    def hurt(self, place):
        worker = self.workers[place]
        if "listens" not in worker.output:
            return  # still starting: there is nothing to interrupt yet
        chance = self.random.random()
        if chance < 0.4:
            self.chaos["SIGKILL"] += 1
            worker.kill()
            worker.door.unlink(missing_ok=True)
            self.workers[place] = self.worker()
        elif chance < 0.8:
            self.chaos["SIGSTOP"] += 1
            worker.send(signal.SIGSTOP)
            time.sleep(self.random.choice([0.2, 1.3, 1.3, 1.6, 3.5]))
            worker.send(signal.SIGCONT)
        else:
            self.chaos["SIGTERM"] += 1
            if worker.stop() != 0:
                self.accepted.unexpected.append(f"UNEXPECTED end after SIGTERM: {worker.process.returncode}")
            worker.door.unlink(missing_ok=True)
            self.workers[place] = self.worker()

    def calm(self):
        """Until nothing is due; what failed or was cancelled with something unread is tried again. Deadlines that are still to
        come are taken away, or there would be something new to do after the end."""

        def quiet():
            sweep.run_pass()
            with_deadline = Item.objects.filter(status="pending").exclude(due_at=None).update(due_at=None)
            busy = with_deadline or actors.settle_once() or Item.objects.filter(status="resolved", wakes=True).count()
            connections.close_all()
            return not busy

        until(quiet, QUIET_WITHIN_S, 0.3)
        for worker in self.workers:
            worker.wait_for("listens")  # or the signal would kill the successor of one that was killed last
            assert worker.stop() == 0, worker.output


def test_nothing_is_lost_doubled_illegal_stuck_out_of_order_or_deadlocked(storm):
    print(f"seed {SEED}, {STORM_S:g} s, {connection.vendor}")
    before = deadlocks()
    storm.blow(STORM_S)
    storm.calm()
    found = found_wrong(storm, before)
    totals = {
        "turns": Turn.objects.count(),
        "messages": Message.objects.exclude(place=None).count(),
        "items": Item.objects.count(),
        "calls": dict(Counter(ToolCall.objects.values_list("status", flat=True))),
        "reasons": dict(Counter(Turn.objects.exclude(reason="").values_list("reason", flat=True))),
        "chaos": dict(storm.chaos),
        "acts": dict(storm.accepted.done),
        "refused": dict(storm.accepted.refused),
    }
    print(totals)
    assert not any(found.values()), f"seed {SEED}: {found}\n{totals}"
    assert totals["turns"] > STORM_S, totals


def deadlocks():
    """How many Postgres has counted in this database; SQLite has none."""
    if connection.vendor != "postgresql":
        return 0
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_stat_clear_snapshot(), deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )
        return cursor.fetchone()[1]


def found_wrong(storm, deadlocks_before):
    """The storm's damage by kind, each a list that should be empty."""
    logs = "\n".join(child.output for child in storm.logs)
    accepted = storm.accepted
    messages = dict(Message.objects.filter(pk__in=accepted.said.values()).values_list("pk", "place"))
    closed = set(Message.objects.filter(conversation__status="closed").values_list("pk", flat=True))
    read = Counter(Message.objects.exclude(item=None).values_list("item", flat=True))
    kept = dict(Item.objects.values_list("pk", "response"))
    runs = Counter(line for line in (storm.folder / "journal").read_text().splitlines() if line.startswith("work "))
    by_status = dict(Counter(ToolCall.objects.filter(name="work").values_list("status", flat=True)))
    started = sum(number for status, number in by_status.items() if status in ("done", "failed"))
    return {
        "lost": [
            *(word for word, pk in accepted.said.items() if messages.get(pk, "gone") in ("gone",)),
            *(word for word, pk in accepted.said.items() if messages.get(pk) is None and pk not in closed),
            *(pk for pk, text in accepted.answers.items() if kept.get(pk) != text),
            *(pk for pk in accepted.answers if not read[pk]),
            *([f"{started} runs were recorded, {len(runs)} happened"] if started > len(runs) else []),
        ],
        "doubled": [
            *(pk for pk, times in read.items() if times > 1),
            *(line for line, times in runs.items() if times > 1),
            *heard_twice(),
        ],
        "illegal": [
            *(f"{breach.check.name}: {breach.rows}" for breach in invariants.breaches()),
            *(line for line in logs.splitlines() if "is not a move" in line or "IntegrityError" in line),
            *Turn.objects.filter(reason__in=["error", "invalid_prompt"]).values_list("error", flat=True),
        ],
        "stuck": list(Turn.objects.filter(status__in=["queued", "running", "waiting"]).values_list("pk", "status")),
        "out of order": unanswered(),
        "deadlocked": [
            *([f"{deadlocks() - deadlocks_before} by Postgres"] if deadlocks() != deadlocks_before else []),
            *(line for line in logs.splitlines() if "deadlock detected" in line),
        ],
        "unexpected": [*accepted.unexpected, *(line for line in logs.splitlines() if "UNEXPECTED" in line)],
    }


def heard_twice():
    """A model that heard a word in two replies of one conversation was given one message twice."""
    heard = Counter()
    for conversation, text in Message.objects.filter(sender="agent").values_list("conversation", "text"):
        for word in set(text.removeprefix("Heard: ").rstrip(".").split()) - {"nothing", "new"}:
            heard[conversation, word] += 1
    return [pair for pair, times in heard.items() if times > 1]


def unanswered():
    """Open conversations whose last entry is a user's: a turn was done before it had answered."""
    wrong = []
    for conversation in Conversation.objects.filter(status="open"):
        newest = conversation.turns.order_by("-pk").first()
        last = conversation.messages.exclude(place=None).order_by("-place").first()
        if newest and newest.status == "done" and last and last.sender == "user":
            wrong.append((conversation.pk, last.pk))
    return wrong
