"""Declared schedules beside people's changes: a declaration is a default, a person's change stays."""

import json

import pytest
from celery import current_app
from django.db import connection
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask, PeriodicTasks
from django_celery_beat.schedulers import DatabaseScheduler

from inbox import resolver
from inbox.instants import Crontab, Every
from inbox.models import DeclaredSchedule
from inbox.services import resolvers, schedules

pytestmark = pytest.mark.django_db


@pytest.fixture
def declare(declarations):
    """`declare(every=60)` is the only declaration from then on, as after a deployment, and is synced."""

    def deploy(**options):
        declarations.resolvers.clear()
        if options:
            resolver("restock:*", name="look", **options)(lambda item: None)
        schedules.sync_schedules()

    return deploy


def row():
    return PeriodicTask.objects.select_related("interval", "crontab").get(name="resolver look")


def followed():
    return schedules.plan_of("look").schedule


def test_a_declaration_makes_a_row_that_beat_can_read(declare):
    declare(every=300)
    task = row()
    assert (task.task, json.loads(task.args), task.enabled) == ("inbox.run_resolver", ["look"], True)
    assert task.schedule.run_every.total_seconds() == 300
    assert followed() == Every(300)


def test_a_crontab_comes_with_its_zone(declare):
    declare(crontab="30 9 * * mon-fri", timezone="Europe/Berlin")
    assert row().schedule.hour == {9}
    assert str(row().schedule.tz) == "Europe/Berlin"
    assert followed() == Crontab("30", "9", "*", "*", "mon-fri", "Europe/Berlin")


def test_an_unchanged_declaration_writes_nothing(declare, django_assert_num_queries):
    declare(every=300)
    with django_assert_num_queries(1):
        schedules.sync_schedules()


def test_a_changed_declaration_is_followed_and_noticed(declare):
    declare(every=300)
    before = PeriodicTasks.last_change()
    declare(every=600)
    assert followed() == Every(600)
    declare(crontab="0 9 * * *")
    assert followed() == Crontab("0", "9", "*", "*", "*", "UTC")
    assert row().interval is None
    declare(every=60)
    assert (followed(), row().crontab) == (Every(60), None)
    assert PeriodicTasks.last_change() > before, "or beat would not look"


def test_a_persons_change_stays(declare):
    declare(every=300)
    task = row()
    task.interval = IntervalSchedule.objects.create(every=2, period="hours")
    task.save()
    declare(every=600)
    assert followed() == Every(7200)
    declare(crontab="0 9 * * *")
    assert followed() == Every(7200)


def test_a_persons_change_of_the_shared_interval_row_stays(declare):
    declare(every=300)
    interval = row().interval
    interval.every = 45
    interval.save()
    declare(every=600)
    assert followed() == Every(45)


def test_a_pause_stays(declare):
    declare(every=300)
    task = row()
    task.enabled = False
    task.save()
    declare(every=600)
    assert row().enabled is False
    assert followed() is None
    assert resolvers.run_resolver("look") is None


def test_deleted_stays_deleted(declare):
    declare(every=300)
    row().delete()
    declare(every=300)
    declare(every=600)
    assert not PeriodicTask.objects.filter(task=schedules.TASK).exists()
    assert followed() is None
    assert resolvers.run_resolver("look") is None


def test_what_is_declared_no_more_is_switched_off_and_on_again_when_it_comes_back(declare):
    declare(every=300)
    declare()
    assert row().enabled is False
    declare()
    declare(every=300)
    assert row().enabled is True
    assert followed() == Every(300)
    declare()
    declare(every=900)
    assert followed() == Every(900)


def test_a_change_and_a_pause_outlive_a_declaration_that_was_away(declare):
    declare(every=300)
    task = row()
    task.interval = IntervalSchedule.objects.create(every=2, period="hours")
    task.save()
    declare()
    declare(every=600)
    assert followed() == Every(7200)
    task = row()
    task.enabled = False
    task.save()
    declare()
    declare(every=300)
    assert followed() is None


def test_a_row_of_that_name_is_taken_over_as_it_is(declare):
    interval = IntervalSchedule.objects.create(every=9, period="minutes")
    PeriodicTask.objects.create(name="resolver look", task=schedules.TASK, args='["look"]', interval=interval)
    declare(every=300)
    assert followed() == Every(540)


def test_two_interval_rows_of_one_length_are_no_problem(declare):
    for _ in range(2):
        IntervalSchedule.objects.create(every=300, period="seconds")
    declare(every=300)
    assert followed() == Every(300)


@pytest.mark.parametrize(
    ("period", "every", "seconds"),
    [
        ("days", 2, 172_800),
        ("hours", 1, 3600),
        ("minutes", 5, 300),
        ("microseconds", 10, 1),
        ("microseconds", 2_500_000, 2),
    ],
)
def test_a_persons_interval_in_any_unit(declare, period, every, seconds):
    declare(every=300)
    task = row()
    task.interval = IntervalSchedule.objects.create(every=every, period=period)
    task.save()
    assert followed() == Every(seconds)


def test_a_crontab_that_cannot_be_read_is_logged_and_does_not_run(declare, caplog):
    declare(every=300)
    task = row()
    task.interval, task.crontab = None, CrontabSchedule.objects.create(minute="nonsense", timezone="UTC")
    task.save()
    assert followed() is None
    assert "cannot be followed" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_beat_sees_the_change_of_a_declaration(declare):
    """The scheduler that `beat` runs, without its clock."""
    declare(every=300)
    scheduler = DatabaseScheduler(current_app._get_current_object(), lazy=True)
    assert scheduler.schedule["resolver look"].schedule.run_every.total_seconds() == 300
    assert not scheduler.schedule_changed()  # closes old connections, so not within a transaction
    declare(every=600)
    assert scheduler.schedule["resolver look"].schedule.run_every.total_seconds() == 600
    scheduler._finalize.cancel()


@pytest.mark.django_db(transaction=True)
def test_processes_that_start_together(declarations, race):
    for deployed in (300, 600):
        declarations.resolvers.clear()
        for name in ("look", "listen"):
            resolver("restock:*", name=name, every=deployed)(lambda item: None)
        finish = race(4, lambda n: schedules.sync_schedules())
        assert not finish.errors
        assert PeriodicTask.objects.filter(task=schedules.TASK).count() == 2
        assert DeclaredSchedule.objects.count() == 2
        assert [plan.schedule for plan in schedules.plans()] == [Every(deployed)] * 2
    connection.close()
