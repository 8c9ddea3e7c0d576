"""What was declared: agents by name, and the toolsets that other apps add to them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agents.errors import BadDeclaration, UnknownAgent

if TYPE_CHECKING:
    from agents.declare import Agent, Tool

agents: dict[str, "Agent"] = {}
# Each is called with (agent, store) and returns the tools that it adds there.
toolsets: list[Callable[["Agent", Any], list["Tool"]]] = []


def register(agent: "Agent") -> None:
    """Declare an agent; a second one of the name is an error at import."""
    if agent.name in agents:
        raise BadDeclaration(f"Two agents are named {agent.name!r}. Rename one.")
    agents[agent.name] = agent


def get_agent(name: str) -> "Agent":
    """The declared agent, or UnknownAgent."""
    try:
        return agents[name]
    except KeyError:
        raise UnknownAgent(f"There is no agent {name!r}. GET /api/v1/agents lists those that are declared.") from None


@contextmanager
def isolated() -> Iterator[None]:
    """Agents declared inside are forgotten afterwards. For tests."""
    before = dict(agents)
    try:
        yield
    finally:
        agents.clear()
        agents.update(before)
