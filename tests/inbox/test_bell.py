"""Ringing is fast and never fails its caller, whatever the broker does."""

import socket
import time

import pytest
from celery import Celery, current_app

from inbox import bell

TASK = "inbox.no_such_task"
SLOW_S = 3  # generous: a busy machine


@pytest.fixture
def broker():
    """`broker(url)` makes it the broker of this thread's rings."""
    before = current_app._get_current_object()
    bell.reset()

    def use(url):
        app = Celery("bell-test", broker=url, set_as_current=False)
        app.conf.task_default_queue = "bell-test"
        app.set_current()
        return app

    yield use
    before.set_current()
    bell.reset()


@pytest.fixture
def closed_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture
def deaf_port():
    """A server that takes connections and never says anything."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield listener.getsockname()[1]


def timed(act):
    began = time.monotonic()
    return act(), time.monotonic() - began


@pytest.mark.parametrize("port", ["closed_port", "deaf_port"])
def test_a_dead_broker_costs_little_and_only_once(broker, port, request, caplog):
    broker(f"redis://127.0.0.1:{request.getfixturevalue(port)}/0")
    rung, took = timed(lambda: bell.ring(TASK, (1,)))
    assert rung is False
    assert took < SLOW_S
    rung, took = timed(lambda: [bell.ring(TASK, (n,)) for n in range(200)])
    assert not any(rung)
    assert took < 0.5, "while it is silent it asks nobody"
    assert [record.levelname for record in caplog.records if record.name == "inbox.bell"] == ["WARNING"]


def test_it_tries_again_when_the_silence_is_over(broker, closed_port, monkeypatch, caplog):
    monkeypatch.setattr(bell, "SILENCE_S", 0.05)
    broker(f"redis://127.0.0.1:{closed_port}/0")
    assert not bell.ring(TASK)
    assert bell.is_silent()
    time.sleep(0.1)
    assert not bell.is_silent()
    assert not bell.ring(TASK)
    assert len([record for record in caplog.records if record.name == "inbox.bell"]) == 2


def test_warming_at_a_dead_broker_is_quick_and_quiet(broker, deaf_port):
    broker(f"redis://127.0.0.1:{deaf_port}/0")
    _, took = timed(bell.warm)
    assert took < SLOW_S
    assert bell.is_silent()


def test_nonsense_raises_nothing(broker):
    broker("nonsense://nowhere")
    assert bell.ring(TASK) is False


def test_the_broker_in_memory_takes_it(broker):
    app = broker("memory://localhost/")
    bell.warm()
    assert bell.ring(TASK, (7,))
    with app.connection_for_read() as connection:
        queue = connection.SimpleQueue("bell-test")
        message = queue.get(block=False)
        message.ack()
        queue.close()
    assert message.headers["task"] == TASK
    assert message.payload[0] == [7]


@pytest.mark.redis
def test_redis_takes_it(broker, redis_url):
    import redis

    broker(redis_url)
    bell.warm()
    assert bell.ring(TASK, (7,))
    with redis.Redis.from_url(redis_url) as client:
        assert client.llen("bell-test") == 1
