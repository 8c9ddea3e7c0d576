from django.apps import AppConfig
from django.db.backends.signals import connection_created


class InboxConfig(AppConfig):
    """Mailboxes, items and the ways to an answer."""

    name = "inbox"

    def ready(self) -> None:
        from inbox import clock

        connection_created.connect(clock.register_on_sqlite, dispatch_uid="inbox.clock")
