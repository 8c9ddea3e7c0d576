"""Sending, replying, broadcasting. Each is one transaction: the message, its wait, what it answers, its deliveries.

Locks, in order: the sender's mailbox (so its messages keep their order), the message that is answered, items."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from agents.services import posting
from inbox.services import items
from inbox.text import check, first_line
from mesh.declare import NAME_LENGTH
from mesh.errors import BadQuorum, NobodyToReach, NotAddressed, NotAPeer
from mesh.ids import message_id
from mesh.limits import mesh_limits
from mesh.models import Capability, Message, Peer, Subscription
from mesh.services import answering, chains, delivering, hot, locks, peers, waits

ALL = "all"
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
    mutual: str | None = None  # the message by which a recipient waits for the sender, the oldest


def send(
    who: From, to: str | Sequence[str], content: str, *, in_reply_to: str | None = None, blocking: bool = False
) -> Sent:
    """Write to one peer, or to several. A reply goes to the sender of what it answers, and acknowledges it.

    Raises UnknownPeer, MessageNotFound, NotAddressed, TooManyHops, TooFast, and the errors of text.check and items.post."""
    check(content, what="content")
    names = [to] if isinstance(to, str) else list(to)
    with transaction.atomic():
        sender, look = who.peer, _begin(who, [] if in_reply_to else names)
        parent = answering.addressed(sender, in_reply_to) if in_reply_to else None
        recipients = [_asker(sender, parent, names)] if parent else _recipients(sender, look, names)
        place = chains.place_of(parent, who.conversation)
        chains.check_budget(place, sender, content, parent)
        whom = recipients[0].address if len(recipients) == 1 else f"the first of {len(recipients)}"
        message = _written(who, sender, Message.Kind.DIRECT, content, place, whom if blocking else "", parent)
        answered = parent is not None and answering.reply(parent, sender, message)
        mutual = _mutual(sender, recipients) if blocking else {}
        if answered and parent:
            delivering.record(message, recipients[0], item=parent.wait_id)
        else:
            delivering.dispatch(message, recipients, mutual)
    return Sent(message, len(recipients), answered, _first(mutual))


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
    for name, what in ((topic, "topic"), (capability, "capability")):
        if name:
            check(name, what=what, limit=NAME_LENGTH)
    sender = who.peer
    with transaction.atomic():
        _begin(who, [])
        reach = _reach(sender, topic, capability)
        expected = reach.count() if blocking else 1
        if not expected:
            raise NobodyToReach
        needed = _quorum(quorum, expected, blocking)
        place = chains.place_of(None, who.conversation)
        chains.check_budget(place, sender, content)
        whom = f"{'the first' if needed == 1 else 'all' if needed == expected else needed} of {expected}"
        message = _written(who, sender, Message.Kind.BROADCAST, content, place, whom if blocking else "")
        message.quorum, message.everyone = needed, quorum == ALL
        message.topic, message.capability = topic or "", capability or ""
        mutual = waits.mutual(sender.pk, reach.values("mailbox_id")) if blocking else {}
        count = delivering.dispatch_all(message, reach, mutual)
        if not count:
            raise NobodyToReach
        if blocking and count != expected:  # peers joined, or left the topic, between the two
            message.quorum = _quorum(quorum, count, blocking)
            Message.objects.filter(pk=message.pk).update(quorum=message.quorum)
    return Sent(message, count, mutual=_first(mutual))


def _begin(who: From, names: Sequence[str]) -> hot.Look:
    """Lock the sender's mailbox, and look: it must still be a peer, and not too fast."""
    look = hot.begin(who.peer, peers.in_small_letters(names))
    if not look.lives:
        raise NotAPeer
    chains.check_rate(look.sent)
    return look


def _recipients(sender: Peer, look: hot.Look, names: list[str]) -> list[hot.Other]:
    if not names or len(names) > MAX_RECIPIENTS:
        raise NobodyToReach(f"Name 1 to {MAX_RECIPIENTS} recipients, or broadcast.")
    found = {peer.pk: peer for peer in (peers.recipient(sender, look, name) for name in names)}
    return list(found.values())


def _mutual(sender: Peer, recipients: Sequence[hot.Other]) -> dict[int, str]:
    """Who of them waits for the sender. Of two that ask each other at the same instant the second is to see the first."""
    locks.pairs(sender.pk, [peer.pk for peer in recipients])
    return waits.mutual(sender.pk, [peer.mailbox_id for peer in recipients])


def _first(mutual: dict[int, str]) -> str | None:
    return min(mutual.values(), default=None)


def _asker(sender: Peer, parent: Message, names: list[str]) -> hot.Other:
    """To whom a reply goes: the sender of what it answers, whether or not it is named."""
    asker = parent.sender
    if others := [name for name in names if name.strip() and peers.small(name) != peers.small(str(asker))]:
        raise NotAddressed(
            f"A reply to this message goes to {asker}. To write to {others[0][:200]!r}, leave in_reply_to out."
        )
    if asker.retired_at is not None:
        raise peers.unknown(sender, str(asker))
    return hot.Other.of(asker)


def _reach(sender: Peer, topic: str | None, capability: str | None) -> QuerySet[Peer]:
    reach = peers.visible_to(sender)
    if topic:
        reach = reach.filter(Exists(Subscription.objects.filter(peer=OuterRef("pk"), topic=topic)))
    if capability:
        reach = reach.filter(Exists(Capability.objects.filter(peer=OuterRef("pk"), name=capability)))
    return reach


def _written(
    who: From,
    sender: Peer,
    kind: str,
    content: str,
    place: chains.Place,
    waits_for: str,
    parent: Message | None = None,
) -> Message:
    """The message, which is not in the database yet; the wait of a blocking one, for whom it says, is."""
    pk = message_id()
    wait = None
    if waits_for:
        wait = items.post(
            sender.mailbox_id,
            tag=waits.WAITING + pk,
            request=f"Waiting for {waits_for} to answer: {first_line(content)}\nIt is your message {pk}.",
            blocking=True,
            due_in_s=mesh_limits().wait_s,
            origin=posting.origin(who.conversation),
            posted_in=who.turn,
            reserved=True,
            wakes=bool(sender.mailbox.agent),  # an outside peer has no agent here to wake
        )
    return Message(
        id=pk,
        kind=kind,
        sender=sender,
        content=content,
        in_reply_to=parent,
        blocking=bool(waits_for),
        wait=wait,
        root=place.root or pk,
        hops=place.hops,
        sent_in=who.turn,
    )


def _quorum(quorum: Any, count: int, blocking: bool) -> int:
    if quorum in (None, "", "first"):
        return 1
    if not blocking:
        raise BadQuorum
    if quorum == ALL:
        return count
    try:
        needed = int(quorum)
    except (TypeError, ValueError, OverflowError):
        raise BadQuorum from None
    if not 1 <= needed <= count:
        raise BadQuorum(f"The quorum is between 1 and the {count} recipients, not {needed}.")
    return needed
