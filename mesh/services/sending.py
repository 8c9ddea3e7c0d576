"""Sending, replying, broadcasting, acknowledging. Each is one transaction: the message, its wait, what it answers, its deliveries.

Locks, in order: the sender's mailbox (so its messages keep their order), the message that is answered, items."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef

from inbox.clock import clock
from inbox.models import Item
from inbox.services import items, letters
from inbox.text import check, first_line
from mesh.errors import BadQuorum, MessageNotFound, NobodyToReach, NotAddressed, NotAPeer
from mesh.ids import message_id
from mesh.limits import mesh_limits
from mesh.models import Capability, Delivery, Message, Peer, Subscription
from mesh.services import chains, delivering, hot, locks, peers, waits

MAX_RECIPIENTS = 100  # of a send that names them; a broadcast has no such bound


@dataclass(frozen=True)
class From:
    """Who sends, as it was authenticated; and the conversation and turn on whose behalf, if any."""

    peer: Peer
    conversation: int | None = None
    turn: int | None = None


@dataclass(frozen=True)
class Sent:
    """A message that is on its way, and what the sender should know."""

    message: Message
    recipients: int
    ended_wait: bool = False
    mutual: str | None = None  # the message by which the recipient waits for the sender


def send(
    who: From, to: str | Sequence[str], content: str, *, in_reply_to: str | None = None, blocking: bool = False
) -> Sent:
    """Write to one peer, or to several. A reply goes to the sender of what it answers, and acknowledges it.

    Raises UnknownPeer, MessageNotFound, NotAddressed, TooManyHops, TooFast, and the errors of text.check and items.post."""
    check(content, what="content")
    names = [to] if isinstance(to, str) else list(to)
    with transaction.atomic():
        sender = _begin(who)
        parent = _parent(sender, in_reply_to)
        recipients = _recipients(sender, names, parent)
        place = chains.place_of(parent, who.conversation)
        chains.check_budget(place, sender, content)
        message = _write(who, sender, Message.Kind.DIRECT, content, parent, place, blocking, 1)
        answered = parent is not None and _answer(parent, sender, message)
        mutual = waits.mutual(sender.pk, recipients[0].pk) if blocking and len(recipients) == 1 else None
        if answered:
            delivering.record(message, recipients, item=parent.wait_id if parent else None)
        else:
            delivering.dispatch(message, recipients)
    return Sent(message, len(recipients), ended_wait=answered, mutual=mutual)


def broadcast(
    who: From,
    content: str,
    *,
    blocking: bool = False,
    topic: str | None = None,
    capability: str | None = None,
    quorum: str | int | None = None,
) -> Sent:
    """Write to every peer that this one may reach, to a topic's, or to those with a capability. Raises NobodyToReach, BadQuorum,
    TooManyHops, TooFast, and the errors of text.check and items.post."""
    check(content, what="content")
    with transaction.atomic():
        sender = _begin(who)
        reach = peers.visible_to(sender)
        if topic:
            reach = reach.filter(Exists(Subscription.objects.filter(peer=OuterRef("pk"), topic=topic)))
        if capability:
            reach = reach.filter(Exists(Capability.objects.filter(peer=OuterRef("pk"), name=capability)))
        count = reach.count()
        if not count:
            raise NobodyToReach
        needed = _quorum(quorum, count, blocking)
        place = chains.place_of(None, who.conversation)
        chains.check_budget(place, sender, content)
        message = _write(
            who, sender, Message.Kind.BROADCAST, content, None, place, blocking, needed, topic or "", capability or ""
        )
        count = delivering.dispatch_all(message, reach)
    return Sent(message, count)


def acknowledge(peer: Peer, message: str, note: str = "") -> Message:
    """Tell the sender that this was read and taken up. Only by an addressee; a second time changes nothing.

    Where enough have, the sender's wait ends with their notes. Later ones, and those of messages that nobody waits for, arrive as
    mail that does not wake. Raises MessageNotFound, NotAddressed, and the errors of text.check."""
    if note:
        check(note, what="note")
    with transaction.atomic():
        found = _addressed(peer, message)
        locked = waits.lock(found.pk)
        if not _acknowledge(locked, peer, note):
            return locked
        if waits.is_open(locked):
            if waits.enough(locked):
                waits.end(locked, note or waits.notes(locked) if locked.quorum == 1 else waits.notes(locked), str(peer))
            return locked
        letters.drop(
            locked.sender.mailbox_id,
            tag=_tag("mesh:ack:from:", peer),
            request=f"Acknowledgement by {peer} of your message {locked.pk}: {first_line(locked.content)}",
            response=note or "Acknowledged.",
            by=str(peer),
            via=Item.Via.MESH,
            wakes=False,
            reserved=True,
        )
    return locked


def find_message(peer: Peer, message: str) -> Message:
    """A message that this peer sent or was sent. Raises MessageNotFound."""
    found = Message.objects.select_related("sender__mailbox").filter(pk=message.strip().lower()).first()
    if found is None or not (
        found.sender_id == peer.pk or Delivery.objects.filter(message=found, recipient=peer).exists()
    ):
        raise MessageNotFound
    return found


def _begin(who: From) -> Peer:
    """Lock the sender's mailbox; it must still be a peer, and not too fast."""
    sender = hot.lock_sender(who.peer.pk)
    if sender is None or sender.retired_at is not None:
        raise NotAPeer
    chains.check_rate(locks.together(sender.pk))
    return sender


def _parent(sender: Peer, in_reply_to: str | None) -> Message | None:
    return _addressed(sender, in_reply_to) if in_reply_to else None


def _addressed(peer: Peer, message: str) -> Message:
    """A message that was sent to this peer. Those of others are as good as unknown."""
    found = find_message(peer, message)
    if not Delivery.objects.filter(message=found, recipient=peer).exists():
        raise NotAddressed("This is your own message; only an addressee may acknowledge it or reply to it.")
    return found


def _recipients(sender: Peer, names: list[str], parent: Message | None) -> list[Peer]:
    if parent is not None:
        others = [name for name in names if name.strip() and name.strip().lower() != str(parent.sender).lower()]
        if others:
            raise NotAddressed(
                f"A reply to this message goes to {parent.sender}. To write to {others[0]!r}, leave in_reply_to out."
            )
        if parent.sender.retired_at is not None:
            return [peers.find_recipient(sender, str(parent.sender))]  # which says that it is gone
        return [parent.sender]
    if not names or len(names) > MAX_RECIPIENTS:
        raise NobodyToReach(f"Name 1 to {MAX_RECIPIENTS} recipients, or broadcast.")
    found = {peer.pk: peer for peer in (peers.find_recipient(sender, name) for name in names)}
    return list(found.values())


def _write(
    who: From,
    sender: Peer,
    kind: str,
    content: str,
    parent: Message | None,
    place: chains.Place,
    blocking: bool,
    quorum: int,
    topic: str = "",
    capability: str = "",
) -> Message:
    """The message, and with it the wait of a blocking one."""
    pk = message_id()
    wait = None
    if blocking:
        wait = items.post(
            sender.mailbox_id,
            tag=f"mesh:waiting:{pk}",
            request=f"Waiting for an answer to your message {pk}: {first_line(content)}",
            blocking=True,
            due_in_s=mesh_limits().wait_s,
            origin=who.conversation,
            posted_in=who.turn,
            reserved=True,
        )
    message = Message(
        id=pk,
        kind=kind,
        sender=sender,
        content=content,
        in_reply_to=parent,
        blocking=blocking,
        wait=wait,
        quorum=quorum,
        topic=topic,
        capability=capability,
        root=place.root or pk,
        hops=place.hops,
        sent_in=who.turn,
    )
    hot.insert_message(message)
    return message


def _answer(parent: Message, sender: Peer, reply: Message) -> bool:
    """A reply acknowledges. Where it is what the parent's sender waits for, it ends the wait and is read there, not twice."""
    locked = waits.lock(parent.pk)
    first = _acknowledge(locked, sender, "")
    if not first or not waits.is_open(locked) or not waits.enough(locked):
        return False
    return waits.end(locked, reply.content, f"{sender}, message {reply.pk}")


def _acknowledge(message: Message, peer: Peer, note: str) -> int:
    rows = Delivery.objects.filter(message=message, recipient=peer, acknowledged_at=None)
    return rows.update(acknowledged_at=clock(), ack_note=note)


def _quorum(quorum: Any, count: int, blocking: bool) -> int:
    if quorum in (None, "", "first"):
        return 1
    if not blocking:
        raise BadQuorum
    if quorum == "all":
        return count
    try:
        needed = int(quorum)
    except (TypeError, ValueError):
        raise BadQuorum from None
    if not 1 <= needed <= count:
        raise BadQuorum(f"The quorum is between 1 and the {count} recipients, not {needed}.")
    return needed


def _tag(prefix: str, peer: Peer) -> str:
    return delivering.tag(prefix, peer)
