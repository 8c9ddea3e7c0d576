from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate, post_save


class MeshConfig(AppConfig):
    """Agents that write to each other."""

    name = "mesh"

    def ready(self) -> None:
        from agents import registry
        from inbox import sweep
        from inbox.models import Mailbox
        from inbox.signals import closing
        from mesh import checks, receivers, tools  # noqa: F401 (the checks register themselves)
        from mesh.services import delivering

        registry.toolsets.append(tools.toolset)
        post_save.connect(receivers.on_mailbox_saved, sender=Mailbox, dispatch_uid="mesh.peer")
        closing.connect(receivers.on_items_closing, dispatch_uid="mesh.waits")
        post_migrate.connect(_sync, sender=self, dispatch_uid="mesh.sync")
        sweep.register("mesh", delivering.deliver_queued)


def _sync(sender: Any, using: str, **kwargs: Any) -> None:
    """Declared addresses exist from the migration on."""
    from django.db import connections, router

    from mesh.models import Peer
    from mesh.services import joining

    if using == router.db_for_write(Peer) and Peer._meta.db_table in connections[using].introspection.table_names():
        joining.sync()
