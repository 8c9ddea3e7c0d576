"""What a supervisor and a monitor ask: `/healthz` (alive), `/readyz` (503 only without the database), `/metrics`.

They are answered before anything else looks at the request: a probe comes with the host name and the scheme of the inside,
without a session, and must be answered quickly while the database or the broker hang.
"""

import logging
from collections.abc import Callable
from typing import Any

import redis
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, Error, connection, connections
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase

from glove_site import metrics
from glove_site.probe import NoAnswerError, Probe
from inbox import sweep

log = logging.getLogger(__name__)

STALE_AFTER = 3  # so many passes of the sweep may be missed before it is reported


def ask_database() -> float | None:
    """The age of the last sweep in seconds. Over a connection of its own: one that waits in the pool would say nothing."""
    own = connection.copy()
    own.settings_dict["OPTIONS"].pop("pool", None)
    if own.vendor == "postgresql":
        own.settings_dict["OPTIONS"]["connect_timeout"] = 2
    connections[DEFAULT_DB_ALIAS] = own  # of this thread alone
    try:
        return sweep.age_s()
    finally:
        own.close()


def ask_broker() -> bool:
    """Whether Redis answers; the broker in memory always does."""
    if settings.REDIS_URL:
        with redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=0.5, socket_timeout=0.5) as client:
            client.ping()
    return True


def _measure() -> str:
    try:
        return metrics.of_database()
    finally:
        connections.close_all()


database = Probe(ask_database, within_s=2, keep_s=2)
broker = Probe(ask_broker, within_s=1, keep_s=3)
measures = Probe(_measure, within_s=5, keep_s=5)


def alive(request: HttpRequest) -> HttpResponse:
    """The process answers."""
    return HttpResponse("ok\n", content_type="text/plain; charset=utf-8")


def ready(request: HttpRequest) -> JsonResponse:
    """Whether requests can be served; and what is degraded meanwhile, each with a sentence for the operator."""
    degraded: dict[str, str] = {}
    try:
        age = database.look()
    except (Error, NoAnswerError) as error:
        log.warning("The database does not answer: %s %s", type(error).__name__, error)
        return JsonResponse(
            {"status": "unavailable", "database": "The database does not answer, or is not migrated."}, status=503
        )
    if not broker_answers():
        degraded["broker"] = "Redis does not answer. Nothing is lost; the sweep finds the work, which takes longer."
    if age is None or age > STALE_AFTER * settings.SWEEP_EVERY_S:
        degraded["sweep"] = "No worker has swept lately. Is one running?"
    status = "degraded" if degraded else "ok"
    return JsonResponse({"status": status, "sweep_age_s": None if age is None else round(age, 1), "degraded": degraded})


def measured(request: HttpRequest) -> HttpResponse:
    """Prometheus text. Without the database it still says so, and what this process knows by itself."""
    try:
        text, up = measures.look(), True
    except (Error, NoAnswerError):
        text, up = "", False
    text += metrics.of_process(database=up, broker=broker_answers())
    return HttpResponse(text, content_type="text/plain; version=0.0.4; charset=utf-8")


def broker_answers() -> bool:
    """Whether the broker answered just now."""
    try:
        return broker.look()
    except (redis.RedisError, OSError, NoAnswerError):
        return False


PATHS: dict[str, Callable[[HttpRequest], HttpResponseBase]] = {
    "/healthz": alive,
    "/readyz": ready,
    "/metrics": measured,
}


class HealthMiddleware:
    """Answers the three addresses; goes first."""

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> Any:
        answer = PATHS.get(request.path_info)
        if answer is None:
            return self.get_response(request)
        if request.method not in ("GET", "HEAD"):
            return HttpResponse(status=405, headers={"Allow": "GET, HEAD"})
        return answer(request)
