"""The story on Postgres and Redis with web, worker and beat as processes of their own, and what may happen to them: a worker
killed while a request is pending and in mid-turn, the broker emptied, down for 20 s, its bells dropped or tripled."""

import shutil
import subprocess
import threading
import time

import pytest
import redis

from inbox import invariants
from tests.processes import until
from tests.site.site import PRODUCTION, Caller, start_beat, start_worker

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.postgres,
    pytest.mark.redis,
    pytest.mark.slow,
    pytest.mark.timeout(300),
]


class Broker:
    """A Redis of this test's own, which may be emptied, killed and started again."""

    def __init__(self, folder, port):
        self.port, self.url = port, f"redis://127.0.0.1:{port}/0"
        self.command = ["redis-server", "--port", str(port), "--save", "", "--dir", str(folder), "--daemonize", "no"]
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self._answers, 10)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def client(self):
        return redis.Redis(port=self.port, socket_timeout=5)

    def _answers(self):
        try:
            with self.client() as client:
                return client.ping()
        except redis.RedisError:
            return False


@pytest.fixture
def broker(tmp_path, free_port):
    if shutil.which("redis-server") is None:
        pytest.skip("needs the program redis-server, to stop and start it")
    broker = Broker(tmp_path, free_port)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def environment(child_environment, broker, tmp_path):
    return {
        **child_environment,
        **PRODUCTION,
        "SECRET_KEY": "only-for-tests-" + "x" * 50,
        "REDIS_URL": broker.url,
        "STORM_JOURNAL": str(tmp_path / "journal"),
    }


@pytest.fixture
def web(start, environment):
    """`web()`: start the web process; a caller of it."""

    def start_web(**changes):
        import socket

        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = str(listener.getsockname()[1])
        child = start("-m", "uvicorn", "glove_site.asgi:application", "--port", port, env={**environment, **changes})
        child.wait_for("Uvicorn running")
        return Caller(f"http://127.0.0.1:{port}")

    return start_web


def tell_the_story(api, word, *, while_pending=lambda: None, within_s=30):
    """Ask, the agent posts and answers something else meanwhile; the request is resolved, the agent tells."""
    conversation = api.open()
    api.say(conversation, f"word:{word} wish:post")
    item = until(lambda: api.item(f"storm:{word}"), within_s)
    until(lambda: len(api.replies(conversation)) == 2, within_s)
    api.say(conversation, f"word:{word}meanwhile")
    until(lambda: f"Heard: {word}meanwhile." in api.replies(conversation), within_s)
    while_pending()
    assert api.item(f"storm:{word}")["status"] == "pending"
    api.resolve(item, f"So be it, {word}.")
    until(lambda: api.item(f"storm:{word}")["status"] == "consumed", within_s)
    until(lambda: len(api.replies(conversation)) == 4, within_s)
    # What is read once is read once: no further reply comes.
    time.sleep(0.5)
    assert len(api.replies(conversation)) == 4
    return conversation


def promises_hold():
    assert invariants.breaches() == []


def test_the_story_and_workers_that_are_killed(start, environment, web, tmp_path):
    worker, api = start_worker(start, environment), web()
    beat = start_beat(start, environment)
    tell_the_story(api, "plain")

    # A cron function answers: beat ticks, the worker asks it.
    conversation = api.open()
    api.say(conversation, "word:tea wish:cron")
    until(lambda: (api.item("cron:tea") or {}).get("status") == "consumed")
    assert (api.item("cron:tea")["resolved_via"], api.item("cron:tea")["response"]) == ("cron", "Cron says: When, tea?")

    # Killed while the request is pending, and started again.
    def kill_and_start():
        nonlocal worker
        worker.kill()
        worker = start_worker(start, environment)

    tell_the_story(api, "killed", while_pending=kill_and_start)

    # Killed in mid-turn, while a tool runs: what started is unknown, never run again, and the turn goes on.
    conversation = api.open()
    api.say(conversation, "word:mid wish:long")
    journal = tmp_path / "journal"
    until(lambda: journal.exists() and "long" in journal.read_text())
    worker.kill()
    worker = start_worker(start, environment)
    until(lambda: len(api.replies(conversation)) == 2)
    assert journal.read_text().count("long") == 1
    [turn] = api.turns(conversation)
    assert (turn["status"], turn["attempts"]) == ("done", 0)
    calls = [
        call
        for message in api("GET", f"/conversations/{conversation}/messages")["items"]
        for call in message["tool_calls"]
    ]
    assert [call["status"] for call in calls] == ["unknown"]

    assert beat.stop() == 0, beat.output
    assert worker.stop() == 0, worker.output
    promises_hold()


def test_a_broker_that_is_emptied_and_one_that_is_down(start, environment, web, broker):
    api = web()
    # Everything that was rung is lost, with nobody there to hear it.
    conversation = api.open()
    api.say(conversation, "word:one wish:post")
    with broker.client() as client:
        until(lambda: client.llen("glove"), 5)
        client.flushall()
    worker = start_worker(start, environment)
    until(lambda: len(api.replies(conversation)) == 2)
    item = api.item("storm:one")

    # Down for 20 s: requests are answered at once, and the worker's own sweep does the work.
    broker.stop()
    down_since = time.monotonic()
    began = time.monotonic()
    api.resolve(item, "So be it.")
    assert time.monotonic() - began < 3
    until(lambda: len(api.replies(conversation)) == 3, 15)
    tell_the_story(api, "down", within_s=20)
    time.sleep(max(0, 20 - (time.monotonic() - down_since)))
    assert worker.process.poll() is None, worker.output
    broker.start()

    # Back: bells are heard again, long before a sweep would find the work.
    until(lambda: "Connected to" in worker.output.rpartition("Cannot connect")[2], 30)
    time.sleep(6)  # the web process' own silence after a failure
    waited = []
    for word in ("a", "b", "c"):
        conversation = api.open()
        began = time.monotonic()
        api.say(conversation, f"word:{word}")
        until(lambda one=conversation: api.replies(one), 15, 0.05)
        waited.append(time.monotonic() - began)
    assert min(waited) < 1, waited
    assert worker.stop() == 0, worker.output
    promises_hold()


def test_all_doorbells_dropped(start, environment, web):
    """Case 46."""
    worker, api = start_worker(start, environment), web(GLOVE_QUEUE="nowhere")
    tell_the_story(api, "unheard")
    assert worker.stop() == 0, worker.output
    promises_hold()


def test_each_doorbell_three_times(start, environment, web, broker):
    """Case 46."""
    worker, api = start_worker(start, environment), web(GLOVE_QUEUE="once")
    halt, rung = threading.Event(), []

    def triple():
        """Moves each message from the queue `once` to the workers' queue, three times."""
        with broker.client() as client:
            while not halt.is_set():
                if message := client.brpop("once", timeout=1):
                    rung.append(message[1])
                    client.lpush("glove", *[message[1]] * 3)

    thread = threading.Thread(target=triple, daemon=True)
    thread.start()
    try:
        tell_the_story(api, "loud")
        time.sleep(1)
        assert len(rung) >= 3
        assert worker.output.count("agents.tasks.run_turn") >= 3 * len(rung)
    finally:
        halt.set()
        thread.join(5)
    assert worker.stop() == 0, worker.output
    promises_hold()
