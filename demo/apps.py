from django.apps import AppConfig


class DemoConfig(AppConfig):
    """A coffee shop's concierge."""

    name = "demo"
