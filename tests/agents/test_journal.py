"""A worker is killed at every point of a turn, by SIGKILL, on the real database: the next one goes on from the rows alone.

Nothing is lost, nothing stands twice, no tool that may run once runs twice; what had started is told as unknown.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from agents import registry
from agents.models import Message, ToolCall
from agents.services import turns
from agents.services.conversations import say
from agents.services.waking import wake_unrung
from inbox.models import Item
from tests.agents import crash_worker
from tests.agents.kit import assert_sound, calls, open_turn, run_queued, transcript
from tests.environment import ROOT
from tests.factories import ConversationFactory, ItemFactory, backdate, fresh

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

KILLED = -9
_workers: dict[str, subprocess.Popen] = {}


@pytest.fixture(scope="module", autouse=True)
def _end_the_workers():
    yield
    for worker in _workers.values():
        worker.stdin.close()
        worker.wait(10)
        worker.stdout.close()
    _workers.clear()


@pytest.fixture
def kill(child_environment, settings, monkeypatch):
    """`kill(point, kind, what, argument)`: have a process run into its death at this point; how it ended."""
    log = Path(settings.VAR_DIR, f"{child_environment['DATABASE_URL'].rpartition('/')[2]}-crash.log")
    log.unlink(missing_ok=True)
    monkeypatch.setenv(crash_worker.LOG, str(log))
    if "worker" not in _workers:
        _workers["worker"] = subprocess.Popen(
            [sys.executable, "-m", "tests.agents.crash_worker"],
            cwd=ROOT,
            env={**child_environment, crash_worker.LOG: str(log)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert _workers["worker"].stdout.readline() == "ready\n"
    worker = _workers["worker"]

    def at(point, kind, what, argument):
        worker.stdin.write(f"{point}|{kind}|{what}|{argument}\n")
        worker.stdin.flush()
        return int(worker.stdout.readline())

    yield at
    log.unlink(missing_ok=True)


@pytest.fixture
def talk(script):
    """A conversation with something to read, and its queued turn."""
    with registry.isolated():
        crash_worker.declare()
        conversation = ConversationFactory()
        for _ in range(3):
            ItemFactory(mailbox=conversation.mailbox, origin=conversation.pk, resolved=True)
        say(conversation.pk, "Go. " * 50)
        yield conversation


def take_over(turn, kind, settings):
    """The next worker, after the lease: in this process, with the same agent and model."""
    options = {"script": crash_worker.script}
    settings.AGENT_MODELS = {"default": {"BACKEND": "agents.adapters.scripted.ScriptedModel", "OPTIONS": options}}
    crash_worker.declare(kind)
    if fresh(turn).status == "running":
        assert turns.start(turn.pk) == "missed"  # not before its lease is over
        backdate(turn, 5, "rung_at")
        lapse(turn)
        assert turns.due_turns() == [turn.pk]  # the sweep finds it
        return turns.start(turn.pk)
    return fresh(turn).status


def lapse(turn):
    backdate(turn, 1, "lease_until")


# What becomes of the second call, and how often it runs, when its worker dies at a point. Elsewhere: done, once.
FATES = {
    ("plain", "as the tool starts"): ("unknown", 0),
    ("plain", "in the tool"): ("unknown", 1),
    ("plain", "after the tool"): ("unknown", 1),
    ("idempotent", "in the tool"): ("done", 2),
    ("idempotent", "after the tool"): ("done", 2),
    ("atomic", "in the tool"): ("done", 2),
}
TOOL_POINTS = ["before the tool", "as the tool starts", "in the tool", "after the tool", "after the tool's result"]
DEATHS = [
    *(("plain", point) for point in crash_worker.POINTS),
    *(("idempotent", point) for point in TOOL_POINTS),
    *(("atomic", point) for point in ("before the tool", "in the tool", "after the tool's result")),
]


@pytest.mark.parametrize(("kind", "point"), DEATHS)
def test_a_worker_dies(talk, kill, settings, kind, point):
    """Cases 2, 3, 4, 7 and 8, promises 3, 9 and 11."""
    turn = open_turn(talk)
    assert kill(point, kind, "turn", turn.pk) == KILLED
    assert take_over(turn, kind, settings) == "done"

    status, runs = FATES.get((kind, point), ("done", 1))
    assert [(name, state) for name, state, _ in calls(talk)] == [("one", "done"), ("two", status), ("three", "done")]
    ran = crash_worker.noted()
    assert (ran.count("one"), ran.count("three")) == (1, 1)
    twos = [word for word in ran if word.startswith("two:")]
    assert len(twos) == runs
    assert len(set(twos)) <= 1  # run again, it has the same key
    if kind == "atomic":
        assert Item.objects.filter(tag="effect").count() == 1  # its effect stands once, however often it began

    told = dict(ToolCall.objects.values_list("name", "result"))
    assert (told["one"], told["three"]) == ("Done: one.", "Done: three.")
    kinds = [said for _, said, _ in transcript(talk)]
    assert kinds.count("summary") <= 1
    assert [said for said in kinds if said != "summary"] == ["message", "inbox", "inbox", "inbox", "message", "message"]
    assert transcript(talk)[-1] == ("agent", "message", "Good.")
    assert not Message.objects.filter(place=None).exists()
    assert fresh(turn).attempts <= 1
    assert run_queued(talk) == []
    assert_sound()


def test_a_turn_that_always_kills_its_worker_fails_after_three(talk, kill, settings):
    """Case 6: three workers, and no fourth; the next message works."""
    turn = open_turn(talk)
    for _ in range(3):
        assert kill("in the model call", "plain", "turn", turn.pk) == KILLED
        lapse(turn)
    assert kill("in the model call", "plain", "turn", turn.pk) == 0  # it is not asked any more
    turn = fresh(turn)
    assert (turn.status, turn.reason, turn.attempts) == ("failed", "attempts", 3)
    say(talk.pk, "Again?")
    assert take_over(open_turn(talk), "plain", settings) == "queued"
    assert run_queued(talk) == ["done"]
    assert_sound()


def test_a_death_in_each_step_costs_no_attempt_beyond_it(talk, kill, settings):
    """Progress forgives: four deaths in one turn, at four points, and it is done."""
    turn = open_turn(talk)
    for point in ("after the receive", "after the reply's commit", "in the tool", "before the last commit"):
        if fresh(turn).status == "running":
            lapse(turn)
        assert kill(point, "plain", "turn", turn.pk) == KILLED
    assert take_over(turn, "plain", settings) == "done"
    ran = crash_worker.noted()
    assert (ran.count("one"), len(ran), ran.count("three")) == (1, 3, 1)
    assert_sound()


def test_a_resolver_dies_between_its_answer_and_the_wake(talk, kill, script):
    """The answer is committed and nobody was told: the sweep tells."""
    script("Read.")
    assert run_queued(talk) == ["done"]
    item = ItemFactory(mailbox=talk.mailbox, origin=talk.pk)
    assert kill("before the wake", "plain", "resolve", item.pk) == KILLED
    item = fresh(item)
    assert (item.status, item.response, item.rung) == ("resolved", "Since noon.", False)
    assert open_turn(talk) is None
    assert wake_unrung() == 1
    assert run_queued(talk) == ["done"]
    assert fresh(item).status == "consumed"
    assert Message.objects.filter(item=item).count() == 1
    assert_sound()


def test_two_who_ask_and_a_worker_that_dies_in_the_receive(talk, kill, settings):
    """Case 8: three resolved items; the death comes between appending and consuming; each stands once."""
    say(talk.pk, "Me too.")
    turn = open_turn(talk)
    assert kill("in the receive", "plain", "turn", turn.pk) == KILLED
    assert not Message.objects.filter(kind="inbox").exists()
    assert set(Item.objects.values_list("status", flat=True)) == {"resolved"}
    assert take_over(turn, "plain", settings) == "done"
    assert sorted(Message.objects.filter(kind="inbox").values_list("item_id", flat=True)) == list(
        Item.objects.order_by("pk").values_list("pk", flat=True)
    )
    assert_sound()
