"""Fixtures of the agents' tests: an agent, its model's script, its conversation."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agents import Agent, registry
from tests.agents.scripts import Script
from tests.factories import ConversationFactory


@pytest.fixture
def script(settings: Any) -> Callable[..., Script]:
    """`script(*replies)`: what the model will say, in this order, and "Done." after that."""

    def install(*replies: Any, **options: Any) -> Script:
        found = Script(*replies, **options)
        backend = "agents.adapters.scripted.ScriptedModel"
        settings.AGENT_MODELS = {"default": {"BACKEND": backend, "OPTIONS": {"script": found}}}
        return found

    install()  # without a script: "Done."
    return install


@pytest.fixture
def declare(script: Any) -> Iterator[Callable[..., Agent]]:
    """`declare(*tools, **options)`: the agent "tester", for this test only; again replaces it."""
    with registry.isolated():

        def agent(*tools: Any, **options: Any) -> Agent:
            registry.agents.pop("tester", None)
            return Agent("tester", instructions="Be brief.", tools=tools, **options)

        yield agent


@pytest.fixture
def agent(declare: Any) -> Agent:
    """The agent "tester", with the built-in tools only."""
    return declare()


@pytest.fixture
def conversation(db: None, declare: Any) -> Any:
    """An open conversation of "tester", which is declared here if it is not yet."""
    if "tester" not in registry.agents:
        declare()
    return ConversationFactory()
