"""Peers for tests, and a doorbell that nobody hears: turns run where a test says so."""

import pytest

from agents import Agent, registry
from mesh import declare
from tests.agents.scripts import Script
from tests.mesh import kit


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Agents and addresses declared in a test are its own; no doorbell leaves the process."""
    monkeypatch.setattr("agents.bell.ring", lambda *args, **kwargs: True)
    monkeypatch.setattr("agents.bell.ring_wakes", lambda *args, **kwargs: True)
    monkeypatch.setattr(declare, "declared", {})
    monkeypatch.setattr("mesh.services.peers.declared", declare.declared)
    monkeypatch.setattr("mesh.services.joining.declared", declare.declared)
    for module in ("tools", "checks", "admin.filters"):
        monkeypatch.setattr(f"mesh.{module}.declared", declare.declared)
    with registry.isolated():
        yield


@pytest.fixture
def worker():
    """An agent on the mesh, whose model is scripted by the test."""
    return Agent("worker", instructions="Work.", mesh=True, capabilities=["work"], description="Works.")


@pytest.fixture
def script(settings):
    """`script(*replies)`: what the model of every agent says, in this order, and "Done." after that."""

    def install(*replies):
        found = Script(*replies)
        backend = "agents.adapters.scripted.ScriptedModel"
        settings.AGENT_MODELS = {"default": {"BACKEND": backend, "OPTIONS": {"script": found}}}
        return found

    install()
    return install


@pytest.fixture
def peers(worker):
    """`peers("a", "b")`: public peers of these addresses, read by `worker`."""
    return lambda *addresses, **options: [kit.public_peer(address, **options) for address in addresses]
