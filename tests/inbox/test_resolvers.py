"""A resolver is asked about each pending item that fits, once per instant. Promise 22."""

import datetime
import threading
import time

import pytest
from django.db import connection

from inbox import bell, resolver
from inbox.errors import UnknownResolver
from inbox.models import Item, ResolverRun
from inbox.services import items, resolvers
from inbox.tasks import run_resolver as task
from tests.inbox.kit import a_request, now_of

UTC = datetime.UTC
START = datetime.datetime(2026, 6, 1, 12, 0, 1, tzinfo=UTC)


@pytest.fixture
def at(monkeypatch):
    """`at(moment)` is what the database's clock says from now on."""

    def set_clock(moment):
        monkeypatch.setattr(resolvers, "database_time", lambda: moment)

    set_clock(START)
    return set_clock


@pytest.fixture
def every_minute(declarations, db, at):
    """Declares a function as the resolver `look` of `restock:*`, each minute."""

    def declare(function):
        return resolver("restock:*", every=60, name="look")(function)

    return declare


def test_none_is_not_yet_and_text_is_the_answer(every_minute):
    not_yet, there = a_request("restock:tea"), a_request("restock:beans")
    every_minute(lambda item: "Ten bags came." if item.tag == "restock:beans" else None)
    run = resolvers.run_resolver("look")
    found = now_of(there)
    assert (found.status, found.response, found.resolved_by, found.resolved_via) == (
        "resolved",
        "Ten bags came.",
        "look",
        "cron",
    )
    assert now_of(not_yet).status == "pending"
    assert (run.looked_at, run.resolved, run.failed, run.error) == (2, 1, 0, "")
    assert run.instant == datetime.datetime(2026, 6, 1, 12, tzinfo=UTC)
    assert run.finished_at


def test_it_sees_only_pending_items_that_fit_in_id_order(every_minute, monkeypatch):
    monkeypatch.setattr(resolvers, "BATCH", 2)
    fits = [a_request(f"restock:{n}") for n in range(5)]
    for other in ("RESTOCK:a", "restock", "payment:1", "xrestock:1"):
        a_request(other)
    a_request("mesh:waiting:1", reserved=True)
    items.resolve(fits[1].pk, "By hand.", by="ada", via="admin")
    seen = []
    every_minute(lambda item: seen.append(item.pk))
    resolvers.run_resolver("look")
    assert seen == [item.pk for item in fits if item != fits[1]]


def test_a_pattern_that_fits_all_leaves_the_systems_own_mail(declarations, db, at):
    a_request("mesh:waiting:1", reserved=True)
    mine = a_request("restock:1")
    seen = []
    resolver("*", every=60, name="all")(lambda item: seen.append(item.pk))
    resolvers.run_resolver("all")
    assert seen == [mine.pk]


def test_one_items_exception_does_not_stop_the_others(every_minute):
    first, broken, last = (a_request(f"restock:{n}") for n in range(3))

    @every_minute
    def look(item):
        if item.pk == broken.pk:
            raise ValueError("bad \x00 line \ud800")
        return "It is here."

    run = resolvers.run_resolver("look")
    assert [now_of(item).status for item in (first, broken, last)] == ["resolved", "pending", "resolved"]
    assert (run.looked_at, run.resolved, run.failed) == (3, 2, 1)
    assert run.error == f"item {broken.pk}: ValueError: bad \N{REPLACEMENT CHARACTER} line \N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("answer", ["", "  \n", "a\x00b", "\ud800", "x" * 70_000, 5, b"bytes", ["list"], False])
def test_an_answer_that_cannot_be_stored_is_that_items_error(every_minute, answer):
    item = a_request("restock:1")
    every_minute(lambda item: answer)
    run = resolvers.run_resolver("look")
    assert now_of(item).status == "pending"
    assert (run.resolved, run.failed) == (0, 1)
    assert f"item {item.pk}: " in run.error


def test_who_was_first_stays_and_is_no_error(every_minute):
    item = a_request("restock:1")

    @every_minute
    def look(asked):
        items.resolve(asked.pk, "By hand.", by="ada", via="admin")
        return "By cron."

    run = resolvers.run_resolver("look")
    assert now_of(item).response == "By hand."
    assert (run.resolved, run.failed) == (0, 0)


@pytest.mark.django_db(transaction=True)
def test_no_transaction_is_open_while_the_function_runs(declarations, at):
    a_request("restock:1")
    open_then = []
    resolver("restock:*", every=60, name="look")(lambda item: open_then.append(connection.in_atomic_block))
    resolvers.run_resolver("look")
    assert open_then == [False]


def test_an_instant_has_one_run_and_the_next_one_its_own(every_minute, at):
    every_minute(lambda item: None)
    for seconds in (0, 10, 58, 59, 61, 61, 100):
        at(START + datetime.timedelta(seconds=seconds))
        task("look")
    instants = ResolverRun.objects.order_by("pk").values_list("instant__minute", flat=True)
    assert list(instants) == [0, 1]


def test_a_long_pause_has_one_catch_up(every_minute, at):
    every_minute(lambda item: None)
    resolvers.run_resolver("look")
    at(START + datetime.timedelta(hours=9))
    assert resolvers.run_resolver("look")
    assert resolvers.run_resolver("look") is None
    assert ResolverRun.objects.count() == 2


def test_a_clock_set_back_repeats_nothing_and_one_far_ahead_stops_nothing(every_minute, at):
    every_minute(lambda item: None)
    for seconds in (0, 60, 120):
        at(START + datetime.timedelta(seconds=seconds))
        assert resolvers.run_resolver("look")
    at(START + datetime.timedelta(days=3000))
    assert resolvers.run_resolver("look")
    at(START + datetime.timedelta(seconds=60))
    assert resolvers.run_resolver("look") is None
    at(START + datetime.timedelta(seconds=180))
    assert resolvers.run_resolver("look")


def test_a_new_schedule_does_not_run_instants_of_before_the_last_run(every_minute, declarations, at):
    every_minute(lambda item: None)
    at(START + datetime.timedelta(minutes=30))
    assert resolvers.run_resolver("look")
    declarations.resolvers.clear()
    resolver("restock:*", every=3600, name="look")(lambda item: None)
    assert resolvers.run_resolver("look") is None, "12:00 is past"
    at(START + datetime.timedelta(hours=1))
    assert resolvers.run_resolver("look")


def test_racing_ticks_make_one_run(declarations, at, race):
    """Of several processes, so past the guard that one process has of its own."""
    made = resolver("restock:*", every=60, name="look")(lambda item: None)
    plan = resolvers.schedules.Plan("look", made.schedule, None)
    for minute in range(5):
        moment = START + datetime.timedelta(minutes=minute)
        finish = race(6, lambda n, moment=moment: resolvers._claim(plan, moment))
        assert not finish.errors
        assert len([run for run in finish.results if run]) == 1
    assert ResolverRun.objects.count() == 5


@pytest.mark.django_db(transaction=True)
def test_a_slow_function_does_not_pile_up_in_a_process(declarations, at):
    a_request("restock:1")
    began, go_on = threading.Event(), threading.Event()

    @resolver("restock:*", every=60, name="look")
    def look(item):
        began.set()
        go_on.wait(10)

    thread = threading.Thread(target=resolvers._run_here, args=("look",))
    thread.start()
    try:
        assert began.wait(10)
        at(START + datetime.timedelta(minutes=5))
        assert resolvers.run_resolver("look") is None
    finally:
        go_on.set()
        thread.join(10)
    assert resolvers.run_resolver("look"), "the instant that was passed over is still free"


def test_an_unknown_name(declarations, db):
    with pytest.raises(UnknownResolver):
        resolvers.run_resolver("nobody")


@pytest.mark.django_db
def test_the_clock_is_the_databases():
    before = datetime.datetime.now(UTC)
    assert abs(resolvers.database_time() - before) < datetime.timedelta(seconds=60)


class TestTheSweep:
    """Finds instants whose tick was lost, RING_AGAIN_S after them."""

    @pytest.fixture
    def synced(self, declarations, db, at, settings):
        settings.RING_AGAIN_S = 60
        resolver("restock:*", every=3600, name="look")(lambda item: "It is here.")
        resolvers.schedules.sync_schedules()
        row = resolvers.schedules.DeclaredSchedule.objects
        row.update(created_at=START)

    def test_nothing_is_missed_before_the_first_instant(self, synced, at, rings):
        at(START + datetime.timedelta(minutes=59))
        resolvers.run_missed()
        assert rings == []

    def test_a_lost_tick_is_rung_until_it_has_run(self, synced, at, rings):
        for seconds, expected in ((3600, 0), (3650, 0), (3661, 1), (3700, 2)):
            at(START + datetime.timedelta(seconds=seconds))
            resolvers.run_missed()
            assert rings == [("inbox.run_resolver", ("look",))] * expected
        resolvers.run_resolver("look")
        resolvers.run_missed()
        assert len(rings) == 2

    def test_a_pause_is_a_pause(self, synced, at, rings):
        task_row = resolvers.schedules.PeriodicTask.objects.get(name="resolver look")
        task_row.enabled = False
        task_row.save()
        at(START + datetime.timedelta(hours=5))
        resolvers.run_missed()
        assert rings == []
        assert resolvers.run_resolver("look") is None
        task_row.enabled = True
        task_row.save()
        resolvers.run_missed()
        assert len(rings) == 1
        assert resolvers.run_resolver("look")
        resolvers.run_missed()
        assert len(rings) == 1, "one catch-up"


@pytest.mark.django_db(transaction=True)
def test_without_a_broker_the_sweep_runs_it_here(declarations, at, settings, monkeypatch):
    monkeypatch.setattr(bell, "ring", lambda *args, **options: False)
    settings.RING_AGAIN_S = 60
    item = a_request("restock:1")
    resolver("restock:*", every=3600, name="look")(lambda item: "It is here.")
    resolvers.schedules.sync_schedules()
    resolvers.schedules.DeclaredSchedule.objects.update(created_at=START)
    at(START + datetime.timedelta(hours=2))
    resolvers.run_missed()
    ends = time.monotonic() + 20
    while now_of(item).status == Item.Status.PENDING and time.monotonic() < ends:
        time.sleep(0.05)
    assert now_of(item).response == "It is here."
    while resolvers._running and time.monotonic() < ends:
        time.sleep(0.05)


def test_a_run_that_was_killed_halfway_has_run_and_the_next_instant_asks_about_the_rest(every_minute, at):
    left = a_request("restock:beans")
    every_minute(lambda item: "Ten bags came.")
    ResolverRun.objects.create(name="look", instant=START.replace(second=0))  # as a killed worker leaves it
    assert resolvers.run_resolver("look") is None
    assert now_of(left).status == "pending"
    at(START + datetime.timedelta(minutes=1))
    assert resolvers.run_resolver("look").resolved == 1
