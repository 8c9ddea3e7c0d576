"""A real `celery worker -P threads`: it hears bells, sweeps with and without a broker, and stops gracefully."""

import time

import pytest

from agents import bell
from agents.models import Message, ToolCall, Turn
from agents.services import conversations
from glove_site import stopping
from inbox import bell as inbox_bell
from inbox import invariants
from tests.processes import until
from tests.site.site import CELERY, PRODUCTION, start_worker

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
NOWHERE = "redis://127.0.0.1:1/0"


@pytest.fixture
def environment(child_environment, tmp_path):
    return {**child_environment, **PRODUCTION, "STORM_JOURNAL": str(tmp_path / "journal")}


@pytest.fixture
def rings_at(settings, monkeypatch):
    """`rings_at(url)`: the tests' own process rings at this broker."""
    from glove_site.celery import app

    def point(url):
        settings.CELERY_BROKER_URL = url
        monkeypatch.setattr(app.conf, "broker_url", url)
        monkeypatch.setattr(app.conf, "broker_write_url", url)
        inbox_bell.reset()

    yield point
    inbox_bell.reset()


def replies(conversation):
    return list(
        Message.objects.filter(conversation=conversation, sender="agent")
        .order_by("place")
        .values_list("text", flat=True)
    )


@pytest.mark.redis
def test_a_bell_wakes_the_agent_long_before_a_sweep_would(start, environment, conversation, redis_url, rings_at):
    worker = start_worker(start, {**environment, "REDIS_URL": redis_url, "GLOVE_SWEEP_EVERY_S": "60"})
    rings_at(redis_url)
    time.sleep(1)  # its first pass is over
    began = time.monotonic()
    conversations.say(conversation.pk, "word:one")
    until(lambda: replies(conversation) == ["Heard: one."], 10, 0.02)
    assert time.monotonic() - began < 5
    assert worker.stop() == 0, worker.output


def test_without_any_broker_the_worker_sweeps_runs_turns_and_stops(start, environment, conversation, monkeypatch):
    monkeypatch.setattr(bell, "ring", lambda *args, **kwargs: False)
    worker = start("worker", "-P", "threads", env={**environment, "REDIS_URL": NOWHERE}, command=CELERY)
    worker.wait_for("Cannot connect")
    conversations.say(conversation.pk, "word:one wish:work")
    until(lambda: replies(conversation) == ["Heard: one.", "Heard: nothing new."], 15)
    began = time.monotonic()
    assert worker.stop() == 0, worker.output
    assert time.monotonic() - began < 20


@pytest.mark.redis
def test_a_turn_is_handed_back_at_its_next_boundary(start, environment, conversation, redis_url, rings_at):
    environment = {**environment, "REDIS_URL": redis_url}
    worker = start_worker(start, environment)
    rings_at(redis_url)
    conversations.say(conversation.pk, "word:one wish:long")
    until(lambda: ToolCall.objects.filter(status="running").exists(), 10)
    began = time.monotonic()
    assert worker.stop() == 0, worker.output
    assert time.monotonic() - began < 15
    assert Turn.objects.values_list("status", "reason", "attempts").get() == ("queued", "handed_back", 0)
    assert ToolCall.objects.get().status == "done"
    # Whoever comes next goes on from there.
    again = start_worker(start, environment)
    until(lambda: replies(conversation) == ["Heard: one.", "Heard: nothing new."], 10)
    assert again.stop() == 0, again.output
    assert (invariants.breaches(), ToolCall.objects.count()) == ([], 1)


def test_what_does_not_hear_is_left_behind(monkeypatch):
    """The guard ends the process when a tool ignores the flag."""
    left = []
    monkeypatch.setattr(stopping, "GRACE_S", 0.2)
    monkeypatch.setattr(stopping, "_leave", lambda: left.append(1))
    stopping.begin()
    stopping.begin()
    try:
        until(lambda: left, 5)
        time.sleep(0.4)
        assert left == [1]
    finally:
        stopping.call_off()
