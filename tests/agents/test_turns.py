"""Claiming and leaving a turn: one writer, a lease, a token; reclaim after a crash; put off, handed back, given up."""

import os
import subprocess
import sys
import threading
from itertools import pairwise

import pytest
from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from agents import bell, registry, stopping
from agents.adapters.base import ModelError
from agents.errors import Fenced
from agents.models import Message, Turn
from agents.services import hot, turns
from agents.services.conversations import cancel, retry, say
from tests.agents.kit import ask, assert_sound, last_turn, open_turn, run_queued, transcript
from tests.agents.scripts import Script, at, use
from tests.factories import ConversationFactory, ToolCallFactory, TurnFactory, backdate, fresh

LEASE_S = 30


@pytest.fixture
def queued(conversation):
    say(conversation.pk, "Hello.")
    return open_turn(conversation)


def lapse(turn):
    """Its worker is dead, and its lease is over."""
    return backdate(turn, 1, "lease_until")


# --- One writer
@pytest.mark.django_db(transaction=True)
def test_one_of_many_claims_the_turn(conversation, race):
    say(conversation.pk, "Hello.")
    turn = open_turn(conversation)
    finish = race(10, lambda n: hot.claim(turn.pk, LEASE_S))
    assert not finish.errors
    (claim,) = [claim for claim in finish.results if claim]
    turn = fresh(turn)
    assert (turn.status, turn.token, turn.attempts) == ("running", claim.token, 0)


@pytest.mark.django_db(transaction=True)
def test_a_doorbell_rung_many_times_runs_the_turn_once(conversation, script, race):
    """Case 5 and promise 28: whoever comes while it runs, or after it, leaves."""
    model = script("Hi.")
    say(conversation.pk, "Hello.")
    turn = open_turn(conversation)
    finish = race(8, lambda n: turns.start(turn.pk))
    assert sorted(finish.results) == ["done"] + ["missed"] * 7
    assert turns.start(turn.pk) == "missed"
    assert len(model.prompts) == 1
    assert transcript(conversation) == [("user", "message", "Hello."), ("agent", "message", "Hi.")]
    assert_sound()


def test_a_second_start_during_the_model_call_leaves(queued, conversation, script):
    seen = []
    script(at("Hi.", lambda: seen.append(turns.start(queued.pk))))
    assert turns.start(queued.pk) == "done"
    assert seen == ["missed"]


def test_a_claim_takes_a_lease_and_a_token_by_the_databases_clock(queued):
    claim = hot.claim(queued.pk, LEASE_S)
    turn = fresh(queued)
    assert turn.token == claim.token > 0
    assert 25 < (turn.lease_until - timezone.now()).total_seconds() <= 30
    assert turn.started_at
    assert hot.claim(queued.pk, LEASE_S) is None


def test_tokens_are_never_alike(conversation):
    assert len({hot.claim(TurnFactory().pk, LEASE_S).token for _ in range(20)}) == 20


@pytest.mark.parametrize("state", ["waiting", "done", "failed", "cancelled"])
def test_what_is_not_queued_is_not_claimed(agent, db, state):
    assert turns.start(TurnFactory(**{state: True}).pk) == "missed"
    assert turns.start(0) == "missed"


def test_a_turn_that_is_not_due_is_not_claimed(queued):
    backdate(queued, -60, "not_before")
    assert turns.start(queued.pk) == "missed"
    assert fresh(queued).status == "queued"


# --- The fence
@pytest.mark.parametrize("end", ["reclaimed", "cancelled"])
def test_a_worker_that_slept_can_write_nothing(queued, conversation, script, end):
    """Promise 9: in mid model call its turn is taken over, or cancelled; its reply is refused. (What it cost is counted.)"""

    def meanwhile():
        if end == "cancelled":
            cancel(conversation.pk)
        else:
            hot.claim(lapse(queued).pk, LEASE_S)

    script(at("Too late.", meanwhile))
    assert turns.start(queued.pk) == "fenced"
    assert transcript(conversation) == [("user", "message", "Hello.")]
    assert fresh(queued).status == ("cancelled" if end == "cancelled" else "running")
    assert fresh(queued).model_calls == 0


def test_a_worker_that_slept_before_its_tool_starts_none(queued, conversation, declare, script):
    ran = []
    declare(_noting(ran))
    script(at(use("note", word="x"), lambda: cancel(conversation.pk)))
    assert turns.start(queued.pk) == "fenced"
    assert ran == []
    assert_sound()


def _noting(ran):
    from agents import tool

    @tool
    def note(word: str) -> str:
        """Note a word."""
        ran.append(word)
        return "Noted."

    return note


@pytest.mark.parametrize("token", ["other", "none"])
def test_the_fence_refuses_without_the_token(queued, token):
    claim = hot.claim(queued.pk, LEASE_S)
    if token == "none":
        assert hot.fence(queued.pk, claim.token, hot.RENEW, [LEASE_S])
        cancel(queued.conversation_id)
    with pytest.raises(Fenced):
        hot.fence(queued.pk, claim.token + (token == "other"), hot.RENEW, [LEASE_S])


def test_the_fence_renews_the_lease(queued):
    claim = hot.claim(queued.pk, LEASE_S)
    before = backdate(queued, -5, "lease_until").lease_until
    hot.fence(queued.pk, claim.token, hot.RENEW, [LEASE_S])
    assert fresh(queued).lease_until > before


@pytest.mark.django_db(transaction=True)
def test_a_lease_is_kept_while_the_model_thinks(conversation, script, settings):
    """Longer than its lease: nobody takes the turn over while its worker lives."""
    settings.AGENT_LIMITS = {"lease_s": 0.6}
    stop = threading.Event()
    script(at("Hi.", lambda: stop.wait(1.5)))
    say(conversation.pk, "Hello.")
    turn = open_turn(conversation)
    left = []

    def run():
        left.append(turns.start(turn.pk))
        connection.close()

    worker = threading.Thread(target=run)
    worker.start()
    while not stop.wait(0.1) and worker.is_alive():
        assert hot.claim(turn.pk, LEASE_S) is None or not worker.is_alive()
    worker.join()
    assert left == ["done"]
    assert fresh(turn).attempts == 0


# --- Reclaim
def test_a_lapsed_turn_is_taken_over_with_another_token(queued, script):
    """Cases 4 and 7: by its lease and token, whatever the worker was called."""
    first = hot.claim(queued.pk, LEASE_S)
    assert hot.claim(queued.pk, LEASE_S) is None
    lapse(queued)
    second = hot.claim(queued.pk, LEASE_S)
    assert second.token != first.token
    assert fresh(queued).attempts == 1


def test_after_three_lost_workers_the_turn_fails(queued, conversation, script):
    """Case 6: three workers die of it, and the fourth does not try. The next message works."""
    script("Hi.")
    for attempt in range(3):
        assert hot.claim(queued.pk, LEASE_S).attempts == attempt
        lapse(queued)
    assert turns.start(queued.pk) == "failed"
    turn = fresh(queued)
    assert (turn.status, turn.reason, turn.attempts) == ("failed", "attempts", 3)
    assert open_turn(conversation) is None
    assert ask(conversation, "Again?") == "done"
    assert transcript(conversation)[-1] == ("agent", "message", "Hi.")


def test_progress_forgives_lost_workers(queued, conversation, declare, script):
    """Only lapses since the last progress count: a turn of many steps may lose a worker in each."""
    declare(_noting([]))
    hot.claim(queued.pk, LEASE_S)
    for word in "abcd":
        lapse(queued)
        script(use("note", word=word), _Die())
        with pytest.raises(_Death):
            turns.start(queued.pk)
        assert fresh(queued).attempts == 0
    lapse(queued)
    script("Done.")
    assert turns.start(queued.pk) == "done"
    assert_sound()


class _Death(BaseException):
    """The worker's end, as seen from inside."""


class _Die:
    def __call__(self, messages):
        raise _Death


def test_open_calls_of_a_turn_that_fails_are_closed(queued):
    """Every end but done: what had not started is aborted, what ran is unknown."""
    hot.claim(queued.pk, LEASE_S)
    states = ["pending", "waiting", "deferred", "running", "done", "failed", "denied", "aborted", "unknown"]
    made = [
        ToolCallFactory(turn=fresh(queued), position=n, **({} if state == "pending" else {state: True}))
        for n, state in enumerate(states)
    ]
    Turn.objects.filter(pk=queued.pk).update(attempts=2)
    lapse(queued)
    assert turns.start(queued.pk) == "failed"
    expected = ["aborted", "aborted", "aborted", "unknown", "done", "failed", "denied", "aborted", "unknown"]
    assert [fresh(call).status for call in made] == expected


# --- Handed back
def test_a_worker_that_stops_hands_its_turn_back(queued, conversation, declare, script, monkeypatch):
    """At the next boundary, after the tool that was under way, and before the next one; no attempt is counted."""
    ran = []
    declare(_noting(ran), _stopping(ran))
    script([use("stop", "a"), use("note", "b", word="x")])
    try:
        assert turns.start(queued.pk) == "handed_back"
        assert turns.start(queued.pk) == "missed"  # this process takes nothing any more
    finally:
        stopping.flag.clear()
    turn = fresh(queued)
    assert (turn.status, turn.reason, turn.attempts, turn.token, turn.rung_at) == (
        "queued",
        "handed_back",
        0,
        None,
        None,
    )
    assert ran == ["stop"]
    assert turns.due_turns() == [queued.pk]
    model = script("Done.")
    assert turns.start(queued.pk) == "done"
    assert ran == ["stop", "x"]
    assert [block["content"] for block in model.prompts[0][2]["content"]] == ["Stopped.", "Noted."]
    assert_sound()


def _stopping(ran):
    from agents import tool

    @tool
    def stop() -> str:
        """Stop the process."""
        ran.append("stop")
        stopping.flag.set()
        return "Stopped."

    return stop


# --- Put off
@pytest.fixture
def bells(monkeypatch):
    """What was rung, and for when."""
    rung = []
    monkeypatch.setattr(bell, "ring", lambda turn, countdown=0.0: rung.append((turn, countdown)) or True)
    return rung


def seconds_until(turn):
    return (fresh(turn).not_before - timezone.now()).total_seconds()


@pytest.mark.parametrize(
    "reason", ["overloaded", "rate_limited", "timeout", "cut_stream", "connection", "provider_error"]
)
def test_a_passing_fault_puts_the_turn_off(queued, conversation, script, bells, reason):
    """Cases 10 to 12: the worker is freed, nothing partial is stored, the reason shows."""
    script(ModelError(reason))
    assert turns.start(queued.pk) == "put_off"
    turn = fresh(queued)
    assert (turn.status, turn.reason, turn.token, turn.rung_at, turn.attempts) == ("queued", reason, None, None, 0)
    assert 1 <= seconds_until(turn) <= 2
    assert bells == [(turn.pk, pytest.approx(1.5, abs=0.5))]
    assert transcript(conversation) == [("user", "message", "Hello.")]
    assert turns.start(queued.pk) == "missed"
    assert turns.due_turns() == []
    backdate(turn, 1, "not_before")
    assert turns.due_turns() == [turn.pk]
    assert turns.start(queued.pk) == "done"
    turn = fresh(queued)
    assert (turn.status, turn.reason, turn.error) == ("done", "", "")


def test_the_wait_doubles_up_to_five_minutes(queued, script, bells):
    script(rest=ModelError("overloaded"))
    waits = []
    for _ in range(11):
        backdate(queued, 1, "not_before")
        assert turns.start(queued.pk) == "put_off"
        waits.append(seconds_until(queued))
    for before, after in pairwise(waits):
        assert after == pytest.approx(min(before * 2, 300), rel=0.5)
    assert waits[-1] == pytest.approx(300, abs=5)
    assert max(countdown for _, countdown in bells) <= 60  # a longer one is the sweep's


@pytest.mark.parametrize("asked", [7, 300, 4000])
def test_the_provider_says_when(queued, script, bells, asked):
    script(ModelError("rate_limited", retry_after=asked))
    assert turns.start(queued.pk) == "put_off"
    assert seconds_until(queued) == pytest.approx(asked, abs=2)


@pytest.mark.parametrize("asked", [0, 0.001])
def test_a_provider_that_says_at_once_is_not_asked_without_a_pause(queued, script, bells, asked):
    """A thousand turns would ask it as fast as they can, for a day."""
    script(rest=ModelError("rate_limited", retry_after=asked))
    for _ in range(3):
        backdate(queued, 1, "not_before")
        assert turns.start(queued.pk) == "put_off"
    assert [countdown for _, countdown in bells] == [1.5, 1.5, 1.5]


def test_a_reply_ends_the_trouble(queued, declare, script, bells):
    """Its next fault waits as briefly as the first."""
    declare(_noting([]))
    script(ModelError("overloaded"), ModelError("overloaded"), use("note", word="x"), ModelError("overloaded"))
    for expected in (1.5, 3, 1.5):
        backdate(queued, 1, "not_before")
        assert turns.start(queued.pk) == "put_off"
        assert seconds_until(queued) == pytest.approx(expected, rel=0.5)


def test_after_a_day_of_faults_the_turn_is_given_up(queued, conversation, script, bells):
    script(rest=ModelError("overloaded"))
    assert turns.start(queued.pk) == "put_off"
    backdate(queued, 24 * 3600 - 60, "troubled_at")
    backdate(queued, 1, "not_before")
    assert turns.start(queued.pk) == "put_off"
    backdate(queued, 24 * 3600 + 60, "troubled_at")
    backdate(queued, 1, "not_before")
    assert turns.start(queued.pk) == "failed"
    assert (fresh(queued).status, fresh(queued).reason) == ("failed", "overloaded")
    script("Hi.")
    retry(conversation.pk)
    assert run_queued(conversation) == ["done"]
    assert transcript(conversation)[-1] == ("agent", "message", "Hi.")


def test_a_message_during_the_wait_is_read_with_the_first(queued, conversation, script, bells):
    script(ModelError("overloaded"), "Hi.")
    assert turns.start(queued.pk) == "put_off"
    say(conversation.pk, "Still there?")
    assert last_turn(conversation) == queued
    backdate(queued, 1, "not_before")
    assert turns.start(queued.pk) == "done"
    assert [text for *_, text in transcript(conversation)] == ["Hello.", "Still there?", "Hi."]
    assert open_turn(conversation) is None


# --- Failing
@pytest.mark.parametrize("reason", ["refusal", "empty", "unknown_stop", "too_long", "auth", "bad_request", "not_found"])
def test_what_would_fail_again_fails_at_once(queued, conversation, script, reason):
    """Case 13 and promise 14: a visible state, no retry, and the next message works."""
    model = script(ModelError(reason), "Hi.")
    assert turns.start(queued.pk) == "failed"
    turn = fresh(queued)
    assert (turn.status, turn.reason) == ("failed", reason)
    assert turn.error
    assert len(model.prompts) == 1
    assert turns.due_turns() == []
    assert ask(conversation, "And now?") == "done"
    assert transcript(conversation) == [
        ("user", "message", "Hello."),
        ("user", "message", "And now?"),
        ("agent", "message", "Hi."),
    ]
    assert_sound()


def test_a_fault_of_ours_fails_the_turn_by_name(queued, script):
    script(KeyError("what"))
    assert turns.start(queued.pk) == "failed"
    assert (fresh(queued).reason, "KeyError" in fresh(queued).error) == ("error", True)


@pytest.mark.parametrize("gone", ["agent", "broken tools"])
def test_what_cannot_be_run_fails_by_name_and_keeps_its_mail(conversation, queued, declare, script, gone, monkeypatch):
    if gone == "agent":
        registry.agents.clear()
    else:
        monkeypatch.setattr("agents.registry.toolsets", [lambda agent, store: [_noting([]), _noting([])]])
    assert turns.start(queued.pk) == "failed"
    assert fresh(queued).reason == ("unknown_agent" if gone == "agent" else "bad_declaration")
    monkeypatch.undo()
    declare()
    script("Hi.")
    retry(conversation.pk)
    assert run_queued(conversation) == ["done"]
    assert transcript(conversation)[0] == ("user", "message", "Hello.")


def test_a_turn_has_so_many_model_calls(queued, declare, script):
    declare(_noting([]), limits={"model_calls": 3})
    model = script(rest=use("note", word="again"))
    assert turns.start(queued.pk) == "failed"
    assert (fresh(queued).reason, len(model.prompts), fresh(queued).model_calls) == ("model_calls", 3, 3)
    assert fresh(queued).error == "The turn reached its limit of model calls: 3."
    assert_sound()


@pytest.mark.django_db(transaction=True)
def test_a_database_that_goes_away_puts_the_turn_off(queued, script, bells):
    from django.db import OperationalError

    def lost(messages):
        raise OperationalError("server closed the connection")

    script(lost, "Hi.")
    assert turns.start(queued.pk) == "put_off"
    assert (fresh(queued).status, fresh(queued).reason) == ("queued", "database")
    backdate(queued, 1, "not_before")
    assert turns.start(queued.pk) == "done"


# --- What is due
def test_a_lost_bell_is_found_within_lease_idle_timeout_and_sweep():
    """Promise 16, of a bell that the broker took and lost: rung again after RING_AGAIN_S, by the next sweep."""
    site = subprocess.run(
        [
            sys.executable,
            "-c",
            "from glove_site import settings as s; print(s.RING_AGAIN_S, s.AGENT_LIMITS['lease_s'])",
        ],
        env={**os.environ, "GLOVE_LEASE_S": "40"},
        capture_output=True,
        text=True,
        check=True,
    )
    again, lease = map(float, site.stdout.split())
    assert lease == 40
    assert again <= lease + settings.IDLE_TRANSACTION_TIMEOUT_S


def test_what_a_sweep_rings(db, agent):
    """Promise 16: queued, due and not rung for RING_AGAIN_S; running on a lapsed lease; each once."""
    again, long = settings.RING_AGAIN_S + 1, 120
    due = [
        backdate(TurnFactory(), 5, "not_before"),
        backdate(TurnFactory(), again, "rung_at"),
        backdate(TurnFactory(running=True), 1, "lease_until"),
        backdate(backdate(TurnFactory(running=True), 1, "lease_until"), long, "rung_at"),
    ]
    backdate(TurnFactory(), 5, "rung_at")
    backdate(TurnFactory(), -60, "not_before")
    for state in ("running", "waiting", "done", "failed", "cancelled"):
        TurnFactory(**{state: True})
    assert sorted(turns.due_turns()) == [turn.pk for turn in due]
    assert turns.due_turns() == []
    assert Turn.objects.filter(pk__in=[turn.pk for turn in due], rung_at=None).count() == 0


@pytest.mark.django_db(transaction=True)
def test_sweeps_share_what_is_due(agent, race):
    made = [TurnFactory().pk for _ in range(30)]
    finish = race(4, lambda n: turns.due_turns())
    assert not finish.errors
    assert sorted(pk for due in finish.results for pk in due) == made


# --- What the database refuses
MOVES = {
    "queued": {"running", "cancelled"},
    "running": {"queued", "waiting", "done", "failed", "cancelled"},
    "waiting": {"queued", "cancelled", "failed"},
    "done": set(),
    "failed": set(),
    "cancelled": set(),
}


def columns_of(state):
    made = TurnFactory.build(conversation=None, **({} if state == "queued" else {state: True}))
    return {name: getattr(made, name) for name in ("status", "token", "lease_until", "finished_at")}


@pytest.mark.postgres
@pytest.mark.django_db
@pytest.mark.parametrize("before", MOVES)
@pytest.mark.parametrize("after", MOVES)
def test_only_the_moves_of_the_design_happen(before, after):
    turn = TurnFactory(**({} if before == "queued" else {before: True}))
    move = Turn.objects.filter(pk=turn.pk)
    if after in MOVES[before] or before == after:
        assert move.update(**(columns_of(after) if before != after else {"status": after})) == 1
    else:
        with pytest.raises(IntegrityError), transaction.atomic():
            move.update(**columns_of(after))
        assert fresh(turn).status == before


@pytest.mark.django_db
@pytest.mark.parametrize("state", ["queued", "running", "waiting"])
def test_a_conversation_has_one_open_turn(state):
    turn = TurnFactory(running=True)
    with pytest.raises(IntegrityError), transaction.atomic():
        TurnFactory(conversation=turn.conversation, **({} if state == "queued" else {state: True}))
    for ended in ("done", "failed", "cancelled"):
        TurnFactory(conversation=turn.conversation, **{ended: True})


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("state", "wrong"),
    [
        ("running", {"token": None}),
        ("running", {"lease_until": None}),
        ("running", {"finished_at": timezone.now()}),
        ("queued", {"token": 1}),
        ("queued", {"finished_at": timezone.now()}),
        ("waiting", {"lease_until": timezone.now()}),
        ("done", {"finished_at": None}),
        ("done", {"token": 1}),
        ("cancelled", {"finished_at": None}),
        ("queued", {"status": "lost"}),
    ],
)
def test_a_turn_of_another_shape_is_refused(state, wrong):
    turn = TurnFactory(**({} if state == "queued" else {state: True}))
    with pytest.raises(IntegrityError), transaction.atomic():
        Turn.objects.filter(pk=turn.pk).update(**wrong)


@pytest.mark.django_db
def test_a_place_in_a_history_is_taken_once():
    conversation = ConversationFactory(said=["Hello.", "Hi."])
    with pytest.raises(IntegrityError), transaction.atomic():
        Message.objects.create(conversation=conversation, place=2, sender="user", text="Me too.")


def test_the_script_of_the_tests_is_honest():
    script = Script("One.", rest="Done.")
    assert [script([], []), script([], [])] == ["One.", "Done."]
