"""Which tools an agent has on a store: its own, those of the store's groups, and those of registered toolsets."""

from typing import Any

from agents import registry
from agents.builtin import INBOX_TOOLS, TASK_TOOLS
from agents.declare import Agent, Tool
from agents.errors import BadDeclaration


def tools_for(agent: Agent, store: Any) -> dict[str, Tool]:
    """By name. A name that stands twice is an error: the model could not tell them apart."""
    offered = list(agent.tools)
    offered += INBOX_TOOLS if store.has("inbox") else ()
    offered += TASK_TOOLS if store.has("tasks") else ()
    for toolset in registry.toolsets:
        offered += toolset(agent, store)
    tools: dict[str, Tool] = {}
    for tool in offered:
        if tool.name in tools:
            raise BadDeclaration(f"The agent {agent.name} has two tools named {tool.name}.")
        tools[tool.name] = tool
    return tools
