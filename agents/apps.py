from django.apps import AppConfig


class AgentsConfig(AppConfig):
    """Conversations, turns, tools, tasks and permissions."""

    name = "agents"
