"""What the mesh hears of others."""

from typing import Any

from agents import registry
from inbox.models import Mailbox
from mesh.services import joining


def on_mailbox_saved(sender: Any, instance: Mailbox, created: bool, raw: bool = False, **kwargs: Any) -> None:
    """A mailbox of an agent on the mesh becomes a peer as it is opened, in the same transaction."""
    agent = registry.agents.get(instance.agent)
    if created and not raw and agent is not None and agent.mesh:
        joining.join(instance)
