"""The sweep: everything that a doorbell asked for is done without one; a doorbell too many changes nothing."""

import socket
import threading
import time
from itertools import pairwise

import pytest
from django.db import OperationalError, connection, connections

from agents import bell, stopping
from agents import sweep as agents_sweep
from agents.models import Message, Turn
from agents.services import conversations, turns
from glove_site.sweeper import Sweeper
from inbox import bell as inbox_bell
from inbox import invariants, sweep
from inbox.clock import clock
from inbox.models import Item
from inbox.services import items
from tests.database import run_race
from tests.processes import until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def only(monkeypatch):
    """`only(name=act)`: these are the jobs of a pass."""

    def register(**acts):
        monkeypatch.setattr(sweep, "_jobs", {})
        for name, act in acts.items():
            sweep.register(name, act, slow=name == "slow")

    return register


@pytest.fixture
def silent(monkeypatch):
    """No bell is ever taken."""
    monkeypatch.setattr(bell, "ring", lambda *args, **kwargs: False)


@pytest.fixture(autouse=True)
def slots_are_free(monkeypatch):
    monkeypatch.setattr(agents_sweep, "_broker_answers", True)
    yield
    assert agents_sweep.slots.drain(20)


def test_a_worker_that_starts_rings_what_hung_in_the_memory_of_one_that_ended(conversation, settings, monkeypatch):
    """The bell was rung a moment ago, in a process that is gone: nobody waits out RING_AGAIN_S for it."""
    settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
    conversations.say(conversation.pk, "Hello.")
    (turn,) = Turn.objects.all()
    Turn.objects.update(rung_at=clock())
    rung = []
    monkeypatch.setattr(bell, "ring", lambda pk, **kwargs: rung.append(pk) or True)
    assert (Sweeper().begin(), rung) == (0, [])  # Redis keeps its bells
    settings.CELERY_BROKER_URL = "memory://localhost/"
    assert (Sweeper(sweep.SLOW).begin(), rung) == (0, [])
    assert (Sweeper().begin(), rung) == (0, [turn.pk])


def replies(conversation):
    return list(Message.objects.filter(conversation=conversation, sender="agent").values_list("text", flat=True))


def once(act):
    """A job that finds one row the first time, and no more."""
    found = iter([1])

    def job():
        act()
        return next(found, 0)

    return job


# --- One pass at a time
def test_a_pass_runs_every_job_while_it_finds_rows_slow_ones_last(only):
    ran, left = [], iter([3, 2, 0])
    only(slow=once(lambda: ran.append("slow")), first=lambda: ran.append("first") or next(left))
    assert sweep.run_pass() == {"first": 5, "slow": 1}
    assert ran == ["first", "first", "first", "slow", "slow"]


def test_a_slow_job_that_hangs_holds_up_no_quick_one(only, settings):
    settings.SWEEP_EVERY_S = 0.2
    gate, quick = threading.Event(), []
    only(slow=lambda: gate.wait(20) and 0, quick=lambda: quick.append(1) or 0)
    sweepers = [Sweeper(lane) for lane in (sweep.QUICK, sweep.SLOW)]
    try:
        for thread in sweepers:
            thread.start()
        until(lambda: len(quick) >= 4, 10)
    finally:
        gate.set()
        for thread in sweepers:
            thread.halt.set()
            thread.join(10)


def test_a_job_that_always_finds_something_does_not_hold_the_pass_up(only):
    only(greedy=lambda: 1, other=lambda: 0)
    assert sweep.run_pass() == {"greedy": sweep.ROUNDS, "other": 0}


def test_a_job_that_fails_does_not_stop_the_others(only, caplog):
    only(broken=lambda: 1 // 0, other=once(lambda: None))
    assert sweep.run_pass() == {"broken": sweep.FAILED, "other": 1}
    assert "The sweep's job broken failed" in caplog.text


def test_a_fault_of_the_database_gives_the_connection_up(only, monkeypatch):
    def lose():
        raise OperationalError("terminating connection")

    closed, close = [], connection.close
    monkeypatch.setattr(connections["default"], "close", lambda: closed.append(1) or close())
    only(lost=lose, other=lambda: Item.objects.count())
    assert sweep.run_pass() == {"lost": sweep.FAILED, "other": 0}
    assert closed == [1]


def test_of_two_passes_at_once_one_runs(only):
    busy, ran = threading.Event(), []

    def slow():
        ran.append(1)
        busy.wait(1)
        return 0

    only(job=slow)
    finish = run_race(4, lambda index: sweep.run_pass())
    assert sorted(map(len, finish.results)) == [0, 0, 0, 1]
    assert not finish.errors
    assert len(ran) == 1


def test_a_pass_that_died_blocks_for_no_longer_than_the_time_between_passes(only, settings):
    settings.SWEEP_EVERY_S = 0.5
    only(job=lambda: 0)
    sweep.run_pass()
    sweep.Sweep.objects.filter(name=sweep.CLAIM).update(began_at=clock())  # and never given back
    assert sweep.run_pass() == {}
    time.sleep(0.6)
    assert sweep.run_pass() == {"job": 0}


def test_a_pass_is_not_run_before_it_is_due(only):
    only(job=lambda: 0)
    assert sweep.age_s() is None
    assert sweep.run_pass(after_s=30) == {"job": 0}
    assert sweep.age_s() == pytest.approx(0, abs=5)
    assert sweep.run_pass(after_s=30) == {}
    assert sweep.run_pass() == {"job": 0}


def test_a_pass_stops_between_jobs_when_it_is_told_to(only):
    only(first=lambda: 0, second=lambda: 0)
    asked = iter([False, True])
    assert sweep.run_pass(stopping=lambda: next(asked)) == {"first": 0}


# --- Doorbells dropped and tripled (promise 28, case 46)
def test_with_all_doorbells_dropped_the_sweep_does_everything(conversation, monkeypatch, settings):
    """A message, a post, its answer, a deadline: nothing rings, passes alone bring the replies."""
    from inbox.signals import mailbox_ready

    monkeypatch.setattr(mailbox_ready, "send_robust", lambda *args, **kwargs: [])
    monkeypatch.setattr(bell, "ring", lambda *args, **kwargs: False)
    monkeypatch.setattr(inbox_bell, "ring", lambda *args, **kwargs: False)
    settings.RING_AGAIN_S = 0.1
    conversations.say(conversation.pk, "word:one wish:post word:two wish:short")
    until(lambda: sweep.run_pass() and Item.objects.count() == 2 and not open_turns())
    items.resolve(Item.objects.get(tag="storm:one").pk, "So it is.", by="sam", via="admin")
    Item.objects.filter(tag="storm:short").update(due_at=clock(-1))
    until(lambda: sweep.run_pass() and Item.objects.filter(status="consumed").count() == 2 and not open_turns())
    assert {item.outcome for item in Item.objects.all()} == {"answered", "expired"}
    assert replies(conversation.pk)[0] == "Heard: one two."
    assert invariants.breaches() == []


def open_turns():
    return Turn.objects.filter(status__in=["queued", "running"]).exists()


def test_each_doorbell_rung_three_times_changes_nothing(conversation, monkeypatch):
    rung = []
    monkeypatch.setattr(bell, "ring", lambda turn_id, countdown=0: rung.append(turn_id) or True)
    conversations.say(conversation.pk, "word:one wish:work")
    [turn] = rung
    finish = run_race(3, lambda index: turns.start(turn))
    assert sorted(finish.results) == ["done", "missed", "missed"]
    assert turns.start(turn) == "missed"
    assert replies(conversation.pk) == ["Heard: one.", "Heard: nothing new."]
    assert invariants.breaches() == []


def test_a_turn_that_was_rung_and_did_not_start_is_rung_again_after_a_while(conversation, monkeypatch, settings):
    rung = []
    monkeypatch.setattr(bell, "ring", lambda turn_id, countdown=0: rung.append(turn_id) or True)
    conversations.say(conversation.pk, "Hello.")
    sweep.run_pass()
    assert len(rung) == 1  # the bell of the message itself; it is young
    Turn.objects.update(rung_at=clock(-settings.RING_AGAIN_S - 1))
    sweep.run_pass()
    sweep.run_pass()
    assert len(rung) == 2


def test_a_lost_workers_turn_is_rung_by_the_first_pass_after_its_lease(conversation, monkeypatch):
    rung = []
    conversations.say(conversation.pk, "Hello.")
    monkeypatch.setattr(bell, "ring", lambda turn_id, countdown=0: rung.append(turn_id) or True)
    Turn.objects.update(
        status="running",
        token=1,
        started_at=clock(-31),
        lease_until=clock(-1),
        rung_at=clock(-31),
        not_before=clock(-31),
    )
    sweep.run_pass()
    assert len(rung) == 1


# --- The broker is away
def test_while_no_bell_is_taken_a_few_turns_run_here(conversation, silent, settings):
    others = [conversations.open_conversation(conversation.mailbox_id) for _ in range(9)]
    for one in (conversation, *others):
        conversations.say(one.pk, "word:one")
    assert Turn.objects.filter(rung_at=None).count() == 10  # a bell that nobody took counts as none
    until(lambda: sweep.run_pass() is not None and not open_turns())
    assert all(replies(one.pk) == ["Heard: one."] for one in (conversation, *others))


def test_no_more_turns_are_taken_than_can_run_at_once(conversation, silent, monkeypatch):
    gate, running = threading.Event(), []
    monkeypatch.setattr(turns, "start", lambda turn_id: running.append(turn_id) or gate.wait(20))
    for _ in range(9):
        conversations.say(conversations.open_conversation(conversation.mailbox_id).pk, "Hello.")
    monkeypatch.setattr(agents_sweep, "_broker_answers", False)
    agents_sweep.ring_due_turns()
    agents_sweep.ring_due_turns()
    try:
        until(lambda: len(running) == agents_sweep.SLOTS)
        assert agents_sweep.slots.free == 0
        assert Turn.objects.filter(rung_at=None).count() == 9 - agents_sweep.SLOTS  # other processes find these
    finally:
        gate.set()


@pytest.mark.parametrize("how", ["refused", "hung"])
def test_a_broker_that_refuses_or_hangs_costs_a_request_next_to_nothing(conversation, settings, monkeypatch, how):
    from glove_site.celery import app

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if how == "hung":
            listener.listen(8)
        url = f"redis://127.0.0.1:{listener.getsockname()[1]}/0"
        settings.CELERY_BROKER_URL = url
        monkeypatch.setattr(app.conf, "broker_url", url)
        monkeypatch.setattr(app.conf, "broker_write_url", url)
        inbox_bell.reset()
        try:
            began = time.monotonic()
            conversations.say(conversation.pk, "word:one")
            assert time.monotonic() - began < 1.5
            assert Turn.objects.get().rung_at is None
            began = time.monotonic()
            until(lambda: sweep.run_pass() and not open_turns())
            assert replies(conversation.pk) == ["Heard: one."]
        finally:
            inbox_bell.reset()


# --- The thread in the workers
@pytest.fixture
def sweeper(settings, monkeypatch):
    settings.SWEEP_EVERY_S = 0.3
    thread = Sweeper()
    yield thread
    thread.halt.set()
    if thread.ident:
        thread.join(10)


def test_it_sweeps_again_and_again_and_survives_a_fault(sweeper, monkeypatch):
    real, ran = sweep.run_pass, []

    def sometimes(*args, **kwargs):
        ran.append(time.monotonic())
        if len(ran) == 2:
            raise OperationalError("gone")
        return real(*args, **kwargs)

    monkeypatch.setattr(sweep, "run_pass", sometimes)
    sweeper.start()
    until(lambda: len(ran) >= 5, 10)
    assert min(later - earlier for earlier, later in pairwise(ran)) > 0.15


def test_two_sweepers_share_the_passes(sweeper, settings, only):
    ran = []
    only(job=lambda: ran.append(1) or 0)
    other = Sweeper()
    try:
        for thread in (sweeper, other):
            thread.start()
        time.sleep(2)
    finally:
        for thread in (sweeper, other):
            thread.halt.set()
            thread.join(10)
    assert 3 <= len(ran) <= 8  # about one in 0.3 s, not two


def test_while_it_stops_it_rings_nothing(conversation, monkeypatch):
    rung = []
    monkeypatch.setattr(bell, "ring", lambda turn_id, countdown=0: rung.append(turn_id) or True)
    conversations.say(conversation.pk, "Hello.")
    Turn.objects.update(rung_at=None)
    rung.clear()
    stopping.flag.set()
    try:
        sweep.run_pass()
    finally:
        stopping.flag.clear()
    assert rung == []
