import os

from django.apps import AppConfig


class DemoConfig(AppConfig):
    """A coffee shop's concierge."""

    name = "demo"

    def serve_notes(self) -> list[str]:
        """What `manage.py serve` says about the demo when it listens."""
        from django.contrib.auth import get_user_model

        from demo import people, stock

        names = [person.name for person in people.PEOPLE]
        if get_user_model().objects.filter(username__in=names).count() < len(names):
            return []
        return [
            f"Sign in as {', '.join(names)}. New passwords: manage.py demo --reset-passwords",
            f"The stock file is {os.path.relpath(stock.path())}.",
        ]
