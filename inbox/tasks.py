"""Celery tasks: each takes an id or a name and calls one service. Lost or doubled, they change nothing but the time."""

from celery import shared_task

from inbox.services import notifications, resolvers, schedules


@shared_task(name=schedules.TASK)
def run_resolver(name: str) -> None:
    """A tick of beat, or of the sweep."""
    resolvers.run_resolver(name)


@shared_task(name=notifications.TASK)
def notify(notification_id: int) -> None:
    """A notification was queued."""
    notifications.deliver(notification_id)
