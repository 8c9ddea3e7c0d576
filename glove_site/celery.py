"""The Celery app: workers run turns and resolvers, beat ticks schedules."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "glove_site.settings")

app = Celery("glove")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
