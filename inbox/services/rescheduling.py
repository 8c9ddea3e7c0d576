"""What a person decides about a resolver's schedule: it stays when the declaration changes."""

from typing import Any

from django.contrib.admin.models import CHANGE
from django.db import transaction
from django_celery_beat.models import PeriodicTask, PeriodicTasks

from inbox import declare
from inbox.errors import NotAllowed, UnknownResolver
from inbox.models import DeclaredSchedule
from inbox.services import schedules
from inbox.services.issuing import log

RIGHT = "django_celery_beat.change_periodictask"


def pause_as(user: Any, row: DeclaredSchedule) -> bool:
    """Let the resolver rest until it is resumed; false where it rests already. Raises NotAllowed, UnknownResolver."""
    return _switch(user, row, False, "Paused.")


def resume_as(user: Any, row: DeclaredSchedule) -> bool:
    """Let it run again, with at most one run for what it missed; false where it runs already."""
    return _switch(user, row, True, "Resumed.")


def reschedule_as(user: Any, row: DeclaredSchedule, schedule: declare.Schedule) -> None:
    """Run it by this schedule from now on, whatever its declaration says. Raises NotAllowed, UnknownResolver."""
    _require(user)
    with transaction.atomic():
        task = PeriodicTask.objects.select_for_update(no_key=True, of=("self",)).filter(pk=row.task_id).first()
        if task is None:
            raise UnknownResolver(f"The schedule of {row.name} was deleted.")
        schedules.point_at(task, schedule)
        task.save(update_fields=["interval", "crontab", "date_changed"])
        log(user, row, CHANGE, f"Changed to {schedule}.")


def _switch(user: Any, row: DeclaredSchedule, enabled: bool, words: str) -> bool:
    _require(user)
    with transaction.atomic():
        tasks = PeriodicTask.objects.filter(pk=row.task_id)
        moved = tasks.filter(enabled=not enabled).update(enabled=enabled)
        if not moved and not tasks.exists():
            raise UnknownResolver(f"The schedule of {row.name} was deleted.")
        if moved:
            PeriodicTasks.update_changed()  # an update alone is not noticed by beat
            log(user, row, CHANGE, words)
    return bool(moved)


def _require(user: Any) -> None:
    if not user.has_perm(RIGHT):
        raise NotAllowed(f"You need the permission {RIGHT} to change schedules.")
