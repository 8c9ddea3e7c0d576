"""Keeping leases: each is renewed in time, whatever else comes and goes."""

import threading
import time

import pytest

from agents.services import leases
from tests.factories import TurnFactory, backdate, fresh


@pytest.fixture
def renewed(monkeypatch):
    """(tokens, seconds) of every renewal, in place of the database."""
    done = []
    monkeypatch.setattr(leases.hot, "renew", lambda tokens, lease_s: done.append((sorted(tokens), lease_s)))
    return done


def test_a_held_lease_is_renewed_at_each_third(renewed):
    with leases.kept(1, 0.3):
        time.sleep(0.45)
    mine = [lease_s for tokens, lease_s in renewed if 1 in tokens]
    assert 2 <= len(mine) <= 6
    assert set(mine) == {0.3}


def test_all_leases_of_a_length_are_one_statement(renewed):
    with leases.kept(1, 0.3), leases.kept(2, 0.3), leases.kept(3, 0.6):
        time.sleep(0.25)
    assert ([1, 2], 0.3) in renewed
    assert ([3], 0.6) in renewed


def test_a_lease_that_ended_is_not_renewed(renewed):
    with leases.kept(1, 0.2):
        pass
    time.sleep(0.15)
    assert not any(1 in tokens for tokens, _ in renewed)


def test_short_turns_that_come_and_go_do_not_starve_a_long_one(renewed):
    """Each of them makes the keeper look anew; none may make it start its wait anew."""
    with leases.kept(1, 0.6):
        ends = time.monotonic() + 0.7
        while time.monotonic() < ends:
            with leases.kept(2, 0.3):
                time.sleep(0.03)
            time.sleep(0.01)
    assert sum(1 in tokens for tokens, _ in renewed) >= 2


def test_a_renewal_that_fails_is_tried_again(monkeypatch):
    tried = []

    def broken(tokens, lease_s):
        tried.append(tokens)
        raise ConnectionError

    monkeypatch.setattr(leases.hot, "renew", broken)
    with leases.kept(1, 0.2):
        time.sleep(0.3)
    assert len(tried) >= 2


@pytest.mark.django_db(transaction=True)
def test_only_ones_own_running_turns_are_renewed():
    mine, lost, done = TurnFactory(running=True), TurnFactory(running=True), TurnFactory(done=True)
    for turn in (mine, lost):
        backdate(turn, 5, "lease_until")
    leases.hot.renew([mine.token, 12345], 30)
    assert fresh(mine).lease_until > fresh(mine).created_at
    assert fresh(lost).lease_until < fresh(lost).created_at
    assert fresh(done).lease_until is None


def test_one_thread_keeps_them_all(renewed):
    with leases.kept(1, 0.3), leases.kept(2, 0.3):
        assert sum(thread.name == "leases" for thread in threading.enumerate()) == 1
