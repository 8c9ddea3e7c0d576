"""After a restart of the database server a pool is full of dead connections: one caller learns of it, not one for each."""

import threading
import time

import pytest
from django.db import OperationalError, connection, connections

from inbox import pool
from tests.processes import until

SPARE = 6


@pytest.fixture
def dead(transactional_db):
    """The pool's connections, all of them killed by the server, and this thread has none."""
    together = threading.Barrier(SPARE)

    def use():
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            together.wait(20)
        connections.close_all()

    users = [threading.Thread(target=use) for _ in range(SPARE)]
    for user in users:
        user.start()
    for user in users:
        user.join(20)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert len(cursor.fetchall()) >= SPARE
    connection.close()  # behind the dead ones: the pool hands out the one that has lain longest
    yield
    connection.close_pool()


def ask(client):
    """What a key that nobody has is answered, which takes a look at the database."""
    answer = client.get("/api/v1/inbox/items", headers={"Authorization": "Bearer glv_nobody"})
    connection.close()  # as at the end of a request
    return answer.status_code


@pytest.mark.postgres
def test_one_call_is_told_to_come_again_and_the_next_is_answered(dead, client):
    began = time.monotonic()
    assert ask(client) == 503
    # At once. With CONN_HEALTH_CHECKS the pool pauses after each dead one, twice as long each time: five are over its patience.
    assert time.monotonic() - began < 3
    until(lambda: connection.pool.get_stats().get("connections_lost", 0) >= SPARE - 1, 10)
    assert [ask(client) for _ in range(SPARE)] == [401] * SPARE


@pytest.mark.postgres
def test_a_fault_of_a_living_connection_is_no_reason_to_look(transactional_db, monkeypatch):
    looked = []
    monkeypatch.setattr(pool, "_look_through", looked.append)
    with pytest.raises(OperationalError), connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '10ms'; SELECT pg_sleep(1)")
    pool.discard_dead()
    assert looked == []
    connection.close()


@pytest.mark.sqlite
def test_where_there_is_no_pool_nothing_happens(db):
    pool.discard_dead()
