"""The Celery app: workers run turns and resolvers, beat ticks schedules. Every worker sweeps."""

import logging
import os
from typing import Any

from celery import Celery, signals

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "glove_site.settings")

log = logging.getLogger(__name__)

app = Celery("glove", loader="glove_site.loader:Loader")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.steps["worker"].add("glove_site.sweeper:SweepStep")


@signals.setup_logging.connect(dispatch_uid="glove_site.logging")
def _keep_our_logging(**kwargs: Any) -> None:
    """Django has set logging up; a receiver of this signal keeps Celery from doing it again."""


@signals.beat_init.connect(dispatch_uid="glove_site.schedules")
def _sync_schedules(**kwargs: Any) -> None:
    """Declared schedules become rows whenever a beat starts. Where that fails, those of the last start go on."""
    from inbox.services import schedules

    schedules.sync_schedules()


@signals.worker_init.connect(dispatch_uid="glove_site.warnings")
def _warn(**kwargs: Any) -> None:
    """Nobody runs `check --deploy` every day; a worker starts often, and it is the one that asks the model."""
    from glove_site.checks import check_model

    for message in check_model():
        log.warning("%s %s (%s)", message.msg, message.hint, message.id)


@signals.worker_shutting_down.connect(dispatch_uid="glove_site.stopping")
def _hand_turns_back(**kwargs: Any) -> None:
    """Comes with the signal itself, before the worker begins to close."""
    from glove_site import stopping

    stopping.begin()
