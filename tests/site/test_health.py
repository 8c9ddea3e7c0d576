"""/healthz, /readyz, /metrics: quick and true, also while the database or the broker are away or hang."""

import re
import socket
import threading
import time

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from agents import bell, registry
from agents.declare import Agent
from agents.models import Turn
from agents.services import conversations
from glove_site import health, metrics
from glove_site.probe import NoAnswerError, Probe
from inbox import bell as inbox_bell
from inbox import sweep
from inbox.clock import clock
from inbox.models import Item, Mailbox
from inbox.services import items

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def fresh():
    for probe in (health.database, health.broker, health.measures):
        probe.forget()


def hang():
    threading.Event().wait(20)


def fail():
    raise OperationalError("gone")


@pytest.fixture
def silent_port():
    """A server that takes connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        yield listener.getsockname()[1]


def numbers(client):
    """The samples of /metrics by name and labels."""
    text = client.get("/metrics").content.decode()
    return {name: float(value) for name, value in re.findall(r"^(\w+(?:\{.*?\})?) (\S+)$", text, re.M)}


def test_alive_asks_nobody(client, django_assert_num_queries):
    with django_assert_num_queries(0):
        answer = client.get("/healthz")
    assert (answer.status_code, answer.content) == (200, b"ok\n")


def test_ready_is_ok_after_a_sweep_and_degraded_before(client):
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    assert "sweep" in answer.json()["degraded"]
    sweep.run_pass()
    health.database.forget()
    assert client.get("/readyz").json()["status"] == "ok"


def test_a_sweep_that_stopped_is_reported(client, settings):
    sweep.run_pass()
    sweep.Sweep.objects.update(began_at=clock(-10 * settings.SWEEP_EVERY_S))
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")


def test_without_the_database_ready_is_503(client, monkeypatch):
    monkeypatch.setattr(health.database, "_ask", fail)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (503, "unavailable")
    assert "gone" not in answer.content.decode()


def test_a_database_that_hangs_is_503_quickly_and_at_once_the_next_time(client, monkeypatch):
    monkeypatch.setattr(health.database, "_ask", hang)
    began = time.monotonic()
    assert client.get("/readyz").status_code == 503
    assert time.monotonic() - began < 3
    began = time.monotonic()
    assert client.get("/readyz").status_code == 503
    assert time.monotonic() - began < 0.5


@pytest.mark.postgres
def test_a_postgres_that_refuses_or_says_nothing_is_503_quickly(client, monkeypatch, silent_port):
    """The real question, over a connection of its own, to an address where no Postgres answers."""
    for port in (1, silent_port):
        health.database.forget()
        monkeypatch.setitem(connection.settings_dict, "PORT", port)
        began = time.monotonic()
        assert client.get("/readyz").status_code == 503
        assert time.monotonic() - began < 3


def test_a_pool_that_is_used_up_is_no_missing_database(client, monkeypatch):
    """The question takes no connection of the pool's."""
    if pool := getattr(connection, "pool", None):
        monkeypatch.setattr(type(pool), "getconn", lambda *args, **kwargs: hang())
    assert health.ask_database() is None


@pytest.mark.parametrize("how", ["refused", "hung"])
def test_without_the_broker_ready_is_degraded_not_503(client, settings, silent_port, how):
    settings.REDIS_URL = f"redis://127.0.0.1:{1 if how == 'refused' else silent_port}/0"
    sweep.run_pass()
    began = time.monotonic()
    answer = client.get("/readyz")
    assert time.monotonic() - began < 2
    assert answer.status_code == 200
    assert set(answer.json()["degraded"]) == {"broker"}


@pytest.mark.redis
def test_redis_that_answers_is_no_complaint(client, settings, redis_url):
    settings.REDIS_URL = redis_url
    sweep.run_pass()
    assert client.get("/readyz").json() == {"status": "ok", "sweep_age_s": pytest.approx(0, abs=5), "degraded": {}}


def test_probes_come_with_any_host_and_scheme(client, settings):
    settings.SECURE_SSL_REDIRECT = True
    for path in ("/healthz", "/readyz", "/metrics"):
        assert client.get(path, headers={"Host": "10.1.2.3:8000"}).status_code == 200
    assert client.post("/healthz").status_code == 405


def test_metrics_count_what_is_open(client):
    with registry.isolated():
        Agent("planner", instructions="Plan.")
        mailbox = Mailbox.objects.create(address="planner", agent="planner")
        conversation = conversations.open_conversation(mailbox.pk)
        late, answered = (items.post(mailbox.pk, tag="a", request=text) for text in "bc")
        Item.objects.filter(pk=late.pk).update(due_at=clock(-60))
        items.resolve(answered.pk, "Yes.", by="sam", via="admin")
        Turn.objects.filter(conversation=conversation).update(not_before=clock(-100))
        other = conversations.open_conversation(mailbox.pk)
        Turn.objects.create(
            conversation=other, not_before=clock(), status="running", token=1, lease_until=clock(-1), started_at=clock()
        )
        sweep.Sweep.objects.create(name=sweep.PASS, began_at=clock(-7))
    found = numbers(client)
    assert found['glove_items{status="pending"}'] == 1
    assert found['glove_items{status="resolved"}'] == 1
    assert found["glove_items_overdue"] == 1
    assert found["glove_items_unrung"] == 0
    assert found['glove_turns{status="queued"}'] == 1
    assert found['glove_turns{status="running"}'] == 1
    assert found["glove_turn_oldest_due_seconds"] == pytest.approx(100, abs=5)
    assert found["glove_turn_leases_lapsed"] == 1
    assert found["glove_sweep_age_seconds"] == pytest.approx(7, abs=5)
    assert found["glove_database_up"] == found["glove_broker_up"] == 1


def test_metrics_count_bells_of_this_process(client, monkeypatch):
    monkeypatch.setattr(inbox_bell, "ring", lambda *args, **kwargs: True)
    before = numbers(client)
    bell.ring(1)
    monkeypatch.setattr(bell, "listened", False)
    bell.ring(1)
    after = numbers(client)
    for outcome in ("rung", "failed"):
        name = f'glove_bells_total{{outcome="{outcome}"}}'
        assert after[name] == before[name] + 1


def test_without_the_database_metrics_say_so(client, monkeypatch):
    monkeypatch.setattr(health.measures, "_ask", fail)
    found = numbers(client)
    assert found["glove_database_up"] == 0
    assert "glove_items_overdue" not in found


@pytest.mark.postgres
@pytest.mark.slow
def test_metrics_read_no_big_table_from_end_to_end():
    """With 100,000 items and as many turns that are over, every query goes by an index or stops early."""
    mailbox = Mailbox.objects.create(address="planner", agent="planner")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO inbox_item (mailbox_id, tag, request, response, status, outcome, blocking, asked, wakes, rung,"
            " created_at, resolved_at, resolved_by, resolved_via, consumed_at) SELECT %s, 'a', 'b', 'c', 'consumed', 'answered',"
            " false, true, true, true, now(), now(), 'sam', 'admin', now() FROM generate_series(1, 100000)",
            [mailbox.pk],
        )
        cursor.execute(
            "INSERT INTO agents_conversation (agent, mailbox_id, title, status, rung, head, context_tokens, input_tokens,"
            " output_tokens, created_at) VALUES ('planner', %s, '', 'open', 0, 0, 0, 0, 0, now()) RETURNING id",
            [mailbox.pk],
        )
        conversation = cursor.fetchone()[0]
        Turn.objects.bulk_create(
            [Turn(conversation_id=conversation, status="done", not_before=clock(), finished_at=clock())]
        )
        cursor.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'agents_turn' AND column_name <> 'id'"
        )
        columns = ", ".join(name for (name,) in cursor.fetchall())
        cursor.execute(
            f"INSERT INTO agents_turn ({columns}) SELECT {columns} FROM agents_turn CROSS JOIN generate_series(1, 100000)"
        )
        cursor.execute("ANALYZE inbox_item; ANALYZE agents_turn")
    with CaptureQueriesContext(connection) as asked:
        metrics.of_database()
    assert len(asked) >= 8
    with connection.cursor() as cursor:
        for query in asked.captured_queries:
            cursor.execute("EXPLAIN " + query["sql"])
            plan = "\n".join(line for (line,) in cursor.fetchall())
            assert "Seq Scan on inbox_item" not in plan, plan
            assert "Seq Scan on agents_turn" not in plan, plan


# --- The probe itself
def test_an_answer_is_kept_for_a_while_and_asked_for_once():
    asked = []
    probe = Probe(lambda: asked.append(1) or len(asked), within_s=1, keep_s=0.2)
    assert [probe.look(), probe.look()] == [1, 1]
    time.sleep(0.25)
    assert probe.look() == 2


def test_one_question_at_a_time_however_many_look():
    asked = []

    def slow():
        asked.append(1)
        time.sleep(0.3)

    probe = Probe(slow, within_s=0.1, keep_s=1)
    for _ in range(5):
        with pytest.raises(NoAnswerError):
            probe.look()
    assert len(asked) == 1
    time.sleep(0.4)
    probe.look()
    assert len(asked) == 1
