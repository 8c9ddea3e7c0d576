"""Fixtures of the inbox's tests."""

import pytest

from inbox import bell, declare


@pytest.fixture
def declarations(monkeypatch):
    """No resolver and no webhook is declared but what the test declares."""
    monkeypatch.setattr(declare, "resolvers", {})
    monkeypatch.setattr(declare, "webhooks", {})
    return declare


@pytest.fixture
def rings(monkeypatch):
    """What was rung, in place of a broker."""
    rung = []
    monkeypatch.setattr(bell, "ring", lambda task, args=(), countdown=0: rung.append((task, tuple(args))) or True)
    return rung
