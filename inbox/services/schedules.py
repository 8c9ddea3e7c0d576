"""Declared schedules beside people's changes: django-celery-beat's rows are made from declarations, as defaults.

`DeclaredSchedule` keeps what was last written for a resolver, so that a person's change is told from an old declaration:
no row -> create it; the declaration unchanged -> write nothing; the row still as it was declared -> follow the declaration;
changed by a person -> hers stays; deleted -> stays deleted. A resolver that is declared no more is switched off, and on again
when it comes back.
"""

import json
import logging
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from inbox import declare, instants
from inbox.errors import BadDeclaration
from inbox.models import DeclaredSchedule

log = logging.getLogger(__name__)

TASK = "inbox.run_resolver"
GONE = "gone: "  # before what was declared, for a resolver that we switched off
UNITS_US = {
    "days": 86_400_000_000,
    "hours": 3_600_000_000,
    "minutes": 60_000_000,
    "seconds": 1_000_000,
    "microseconds": 1,
}


@dataclass(frozen=True)
class Plan:
    """What the site has decided about one resolver's schedule. `schedule` is None where it is paused or deleted."""

    name: str
    schedule: declare.Schedule | None
    since: Any  # when it was first declared here; None where it has never been synced


def sync_schedules() -> None:
    """Bring the schedule rows in line with the declarations. For the start of every process that beats; safe to run twice."""
    known = {row.name: row for row in DeclaredSchedule.objects.all()}
    for name, resolver in declare.resolvers.items():
        if row := known.pop(name, None):
            _follow(row, resolver)
        else:
            _create(resolver)
    for orphan in known.values():
        _switch_off(orphan)


def plans() -> list[Plan]:
    """The plan of every declared resolver, in two queries."""
    known = {row.name: row for row in DeclaredSchedule.objects.all()}
    tasks = PeriodicTask.objects.select_related("interval", "crontab")
    by_id = {task.pk: task for task in tasks.filter(pk__in=[row.task_id for row in known.values()])}
    found = []
    for name, resolver in declare.resolvers.items():
        row = known.get(name)
        if row is None:
            found.append(Plan(name, resolver.schedule, None))
        else:
            found.append(Plan(name, _current(by_id.get(row.task_id)), row.created_at))
    return found


def plan_of(name: str) -> Plan:
    """The plan of one declared resolver."""
    return next(plan for plan in plans() if plan.name == name)


def _create(resolver: declare.Resolver) -> None:
    try:
        with transaction.atomic():
            title = f"resolver {resolver.name}"
            task = PeriodicTask.objects.filter(name=title).first()
            if task is None:
                task = PeriodicTask(name=title, task=TASK, args=json.dumps([resolver.name]), enabled=True)
                task.description = f"Asks the resolver {resolver.name} for answers to {resolver.pattern}."
                point_at(task, resolver.schedule)
                task.save()
            DeclaredSchedule.objects.create(name=resolver.name, task_id=task.pk, declared=str(resolver.schedule))
    except (IntegrityError, ValidationError):
        log.info("Another process has just made the schedule of %s.", resolver.name)


def _follow(row: DeclaredSchedule, resolver: declare.Resolver) -> None:
    wanted = str(resolver.schedule)
    if row.declared == wanted:
        return
    with transaction.atomic():
        # The claim: of two processes that start together, one writes.
        if not DeclaredSchedule.objects.filter(pk=row.pk, declared=row.declared).update(declared=wanted):
            return
        task = PeriodicTask.objects.select_related("interval", "crontab").filter(pk=row.task_id).first()
        if task is None:
            return
        if row.declared.startswith(GONE):
            task.enabled = True
            task.save(update_fields=["enabled", "date_changed"])
        if task.enabled and str(_current(task)) == row.declared.removeprefix(GONE) != wanted:
            point_at(task, resolver.schedule)
            task.save(update_fields=["interval", "crontab", "date_changed"])


def _switch_off(row: DeclaredSchedule) -> None:
    if row.declared.startswith(GONE):
        return
    with transaction.atomic():
        task = PeriodicTask.objects.filter(pk=row.task_id, enabled=True).first()
        if task is None:  # deleted, or paused by a person, whose pause it stays
            return
        if DeclaredSchedule.objects.filter(pk=row.pk, declared=row.declared).update(declared=GONE + row.declared):
            task.enabled = False
            task.save(update_fields=["enabled", "last_run_at", "date_changed"])
            log.warning("The resolver %s is declared no more; its schedule is switched off.", row.name)


def point_at(task: PeriodicTask, schedule: declare.Schedule) -> None:
    """Point the task at a row for this schedule. Such rows are shared, and may exist twice, so the first one is taken."""
    if isinstance(schedule, instants.Every):
        fields: dict[str, Any] = {"every": schedule.seconds, "period": IntervalSchedule.SECONDS}
        task.interval = IntervalSchedule.objects.filter(**fields).first() or IntervalSchedule.objects.create(**fields)
        task.crontab = None
        return
    fields = {
        "minute": schedule.minute,
        "hour": schedule.hour,
        "day_of_month": schedule.day_of_month,
        "month_of_year": schedule.month_of_year,
        "day_of_week": schedule.day_of_week,
        "timezone": schedule.zone,
    }
    task.crontab = CrontabSchedule.objects.filter(**fields).first() or CrontabSchedule.objects.create(**fields)
    task.interval = None


def _current(task: PeriodicTask | None) -> declare.Schedule | None:
    """The task's schedule, whoever wrote it; None where the resolver does not run. A clock time or the sun is not one of ours."""
    if task is None or not task.enabled:
        return None
    try:
        return _read(task)
    except BadDeclaration as error:
        log.error("The schedule %s cannot be followed: %s", task.name, error)
        return None


def _read(task: PeriodicTask) -> declare.Schedule | None:
    if task.interval is not None:
        # Shorter than a second is a second: instants are whole ones.
        return instants.Every(max(1, task.interval.every * UNITS_US[task.interval.period] // 1_000_000))
    if task.crontab is None:
        return None
    cron = task.crontab
    return instants.Crontab(
        minute=cron.minute,
        hour=cron.hour,
        day_of_month=cron.day_of_month,
        month_of_year=cron.month_of_year,
        day_of_week=cron.day_of_week,
        zone=str(cron.timezone),
    )
