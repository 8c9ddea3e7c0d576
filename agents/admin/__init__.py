"""Conversations, turns and tool permissions in the admin, to read; and what the desk shows around a request."""

from agents.admin import conversations, doubts, permissions, turns, usage
from agents.admin.reader import AgentsReader
from inbox.admin import reader

reader.use(AgentsReader())

__all__ = ["conversations", "doubts", "permissions", "turns", "usage"]
