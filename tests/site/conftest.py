"""The storm's agent in the tests' own process."""

import pytest

from agents import registry
from agents.services import conversations
from inbox.models import Mailbox
from tests.storm.agent import declare

SCRIPTED = "agents.adapters.scripted.ScriptedModel"


@pytest.fixture
def stormy(settings, monkeypatch):
    """The agent `storm` is declared, and its model answers at once."""
    monkeypatch.setattr("tests.storm.agent.pause", lambda least, most: None)
    settings.AGENT_MODELS = {"default": {"BACKEND": SCRIPTED, "OPTIONS": {"script": "tests.storm.model.reply"}}}
    with registry.isolated():
        yield declare()


@pytest.fixture
def conversation(stormy, transactional_db):
    """An open conversation of the agent `storm`."""
    return conversations.open_conversation(Mailbox.objects.create(address="storm/ada", agent="storm").pk)
