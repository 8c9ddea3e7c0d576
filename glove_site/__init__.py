"""The site: settings, urls, ASGI, the Celery app, the API's mount, health and metrics."""

from glove_site.celery import app as celery_app

__all__ = ["celery_app"]
