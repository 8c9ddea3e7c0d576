"""Conversations, turns and tool permissions in the admin, to read; and what the desk shows around a request."""

from agents.admin import conversations, permissions, turns
from agents.admin.reader import AgentsReader
from inbox.admin import reader

reader.use(AgentsReader())

__all__ = ["conversations", "permissions", "turns"]
