"""Agents: conversations, turns, tools and the loop."""
