from django.apps import AppConfig
from django.db.backends.signals import connection_created


class InboxConfig(AppConfig):
    """Mailboxes, items and the ways to an answer."""

    name = "inbox"

    def ready(self) -> None:
        from inbox import checks, clock, sweep  # noqa: F401  registers the checks
        from inbox.services import items, notifications, resolvers

        connection_created.connect(clock.register_on_sqlite, dispatch_uid="inbox.clock")
        sweep.register("items_expired", items.expire_due)
        sweep.register("notifications", notifications.deliver_due, slow=True)
        sweep.register("resolvers_missed", resolvers.run_missed, slow=True)
