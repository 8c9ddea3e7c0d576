"""What the mesh hears of others."""

from typing import Any

from agents import registry
from inbox.models import Item, Mailbox
from mesh.services import joining, waits


def on_mailbox_saved(sender: Any, instance: Mailbox, created: bool, raw: bool = False, **kwargs: Any) -> None:
    """A mailbox of an agent on the mesh becomes a peer as it is opened, in the same transaction."""
    agent = registry.agents.get(instance.agent)
    if created and not raw and agent is not None and agent.mesh:
        joining.join(instance)


def on_items_closing(sender: Any, closed: list[tuple[int, str]], via: str, **kwargs: Any) -> None:
    """A wait that the mesh itself did not end."""
    ended = [pk for pk, tag in closed if tag.startswith(waits.WAITING)]
    if ended and via != Item.Via.MESH:
        waits.ended_by_others(ended)
