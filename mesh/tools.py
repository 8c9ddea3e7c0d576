"""The four mesh tools, with the original's names and inputs, plus `topic`, `capability` and `quorum`. All are atomic."""

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from agents.declare import Agent, Tool, ToolContext, tool
from inbox.text import is_blank
from mesh.declare import declared
from mesh.errors import NotAPeer
from mesh.models import Peer
from mesh.services import answering, peers, sending
from mesh.services.sending import From

LISTED = 100

Blocking = Annotated[
    bool, Field(description="True where you will wait for the answer: you are reminded until it comes.")
]


class PeerFilter(BaseModel):
    """Which peers."""

    model_config = ConfigDict(extra="forbid")

    capability: str | None = None
    name_contains: str | None = None


@tool(name="glove_mesh_send_message", atomic=True)
def send_message(
    ctx: ToolContext,
    to: Annotated[str, Field(description="The peer's address, as glove_mesh_list_agents shows it.")],
    content: str,
    in_reply_to: Annotated[str | None, Field(description="The id of the message that you answer.")] = None,
    blocking: Blocking = False,
) -> str:
    """Write to another agent. Its answer comes to you as mail. Do not answer mere thanks."""
    reply_to = (in_reply_to or "").strip()
    sent = sending.send(_sender(ctx), to, content, in_reply_to=reply_to or None, blocking=blocking)
    said = f"Sent as message {sent.message.pk}."
    if sent.ended_wait:
        said += " It was what the recipient waited for."
    if blocking:
        said += f" Item {sent.message.wait_id} waits for the answer, which will come to you as mail; go on meanwhile."
    else:
        said += " If it is answered, that comes to you as mail."
    return said + _mutual(sent)


@tool(name="glove_mesh_broadcast", atomic=True)
def broadcast(
    ctx: ToolContext,
    content: str,
    blocking: Blocking = False,
    topic: Annotated[str | None, Field(description="Only the peers that subscribe to this topic.")] = None,
    capability: Annotated[str | None, Field(description="Only the peers with this capability.")] = None,
    quorum: Annotated[
        str | int | None,
        Field(description='How many must answer a blocking one: "first" (default), "all", or a number.'),
    ] = None,
) -> str:
    """Write to every agent that you can reach, or to those of a topic or with a capability."""
    sent = sending.broadcast(
        _sender(ctx), content, blocking=blocking, topic=topic, capability=capability, quorum=quorum
    )
    said = f"Sent as message {sent.message.pk} to {sent.recipients} {'peer' if sent.recipients == 1 else 'peers'}."
    if not blocking:
        return said + " Answers come to you as mail."
    needed = "the first answer" if sent.message.quorum == 1 else f"the answers of {sent.message.quorum} of them"
    said += f" Item {sent.message.wait_id} waits for {needed}, which will come to you as mail; go on meanwhile."
    return said + _mutual(sent)


@tool(name="glove_mesh_list_agents", atomic=True)
def list_agents(ctx: ToolContext, filter: PeerFilter | None = None) -> str:  # noqa: A002 (the contract's name)
    """List the agents that you can write to."""
    asked = filter or PeerFilter()
    found = peers.visible_to(_sender(ctx).peer)
    if asked.capability:
        found = found.filter(capabilities__name=asked.capability)
    if asked.name_contains:
        found = found.filter(mailbox__address__icontains=asked.name_contains)
    rows = [
        describe(peer) for peer in found.prefetch_related("capabilities").order_by("mailbox__address")[: LISTED + 1]
    ]
    if not rows:
        filtered = asked.capability or asked.name_contains
        return f"There is nobody to write to{' with this filter' if filtered else ''}."
    more = f"\n(more than {LISTED}: narrow the filter)" if len(rows) > LISTED else ""
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows[:LISTED]) + more


@tool(name="glove_mesh_acknowledge", atomic=True)
def acknowledge(ctx: ToolContext, message_id: str, note: str | None = None) -> str:
    """Tell the sender that you have taken its message up. That ends its wait: where you have an answer, reply instead."""
    done = answering.acknowledge(_sender(ctx).peer, message_id, "" if is_blank(note or "") else note or "")
    if not done.first:
        return f"You had acknowledged message {done.message.pk} before; nothing was changed."
    what_next = "The sender reads that with its next mail."
    if done.waited:
        what_next = "That ended the sender's wait." if done.ended_wait else "The sender waits for others too."
    return f"Message {done.message.pk} is acknowledged. {what_next}"


def describe(peer: Peer) -> dict[str, Any]:
    """A peer as others see it."""
    return {
        "name": str(peer),
        "description": peer.description,
        "capabilities": sorted(capability.name for capability in peer.capabilities.all()),
        "metadata": peer.metadata,
    }


MESH_TOOLS: tuple[Tool, ...] = (send_message, broadcast, list_agents, acknowledge)


def toolset(agent: Agent, store: Any) -> list[Tool]:
    """For conversations of the database whose mailbox is a peer."""
    conversation = getattr(store, "conversation", None)
    if conversation is None:
        return []
    if not agent.mesh and conversation.mailbox.address.lower() not in declared:
        return []
    on_mesh = Peer.objects.filter(mailbox_id=conversation.mailbox_id, retired_at=None).exists()
    return list(MESH_TOOLS) if on_mesh else []


def _mutual(sent: sending.Sent) -> str:
    if sent.mutual is None:
        return ""
    who = "the recipient itself" if sent.recipients == 1 else "one of them itself"
    return f" Note: {who} waits for your answer to its message {sent.mutual}. Answer that first."


def _sender(ctx: ToolContext) -> From:
    """The peer that the turn runs for: never a field that the model fills in."""
    conversation = getattr(ctx.store, "conversation", None)
    if conversation is None:
        raise NotAPeer
    return From(peers.peer_of(conversation.mailbox_id), conversation.pk, ctx.store.turn)
