"""Agents: conversations, turns, tools and the loop. Declare yours in a glove.py with what is exported here."""

from agents.declare import Agent, ToolContext, tool

__all__ = ["Agent", "ToolContext", "tool"]
