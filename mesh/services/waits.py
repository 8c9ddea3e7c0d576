"""The waits of blocking sends: ended by a reply or by enough acknowledgements, or when they can no longer be met.

Acknowledgements are counted under the message row's lock, so of two at once one is the last. The item itself has one winner."""

from collections.abc import Iterable

from django.db.models import Exists, OuterRef, Q, QuerySet

from inbox.errors import AlreadyClosed
from inbox.models import Item
from inbox.services import items
from inbox.text import MAX_BYTES, clean
from mesh.models import Delivery, Message, Peer

GONE = "The recipient is no longer reachable; nobody will answer this."
OFF_THE_MESH = "You were taken off the mesh; nobody can answer this any more."
LEAST_OF_A_NOTE = 200  # bytes, however many there are


def lock(message: Message) -> Message:
    """The message, its row locked: after the sender's mailbox, before any delivery or item."""
    list(Message.objects.select_for_update(no_key=True).filter(pk=message.pk).values_list("pk"))
    return message


def is_open(message: Message) -> bool:
    """Whether somebody still waits for it."""
    if message.wait_id is None:
        return False
    return Item.objects.filter(pk=message.wait_id, status=Item.Status.PENDING).exists()


def enough(message: Message) -> bool:
    """Whether the acknowledgements of distinct recipients reach the quorum. The caller holds the message's lock."""
    return message.deliveries.exclude(acknowledged_at=None).count() >= message.quorum


def end(message: Message, response: str, by: str) -> bool:
    """Answer the wait; false where it is closed already."""
    if message.wait_id is None:
        return False
    try:
        items.resolve(message.wait_id, response, by=by, via=Item.Via.MESH)
    except AlreadyClosed:
        return False
    return True


def notes(message: Message, *, but: int | None = None) -> str:
    """What those who acknowledged said, each on a line of its own: further lines of a note are indented, so that nobody speaks for
    another, and each gets its share of the room. Of a message to one, the note alone. `but` leaves out a peer, and whoever gave
    no note."""
    replied = Message.objects.filter(in_reply_to=message, sender=OuterRef("recipient"))
    rows = message.deliveries.exclude(acknowledged_at=None).annotate(replied=Exists(replied))
    rows = rows.select_related("recipient__mailbox").order_by("acknowledged_at", "pk")
    if but is not None:
        rows = rows.exclude(recipient=but).exclude(ack_note="")
    found = list(rows)
    if message.quorum == 1 and len(found) == 1 and found[0].ack_note:
        return found[0].ack_note
    share = max(LEAST_OF_A_NOTE, MAX_BYTES // max(len(found), 1) - 250)
    return clean("\n".join(_line(row, share) for row in found), limit=MAX_BYTES)


def recipient_is_gone(peer: Peer) -> int:
    """After a peer retired: end its own waits, and those of others that can no longer be met. Returns how many."""
    own = Item.objects.filter(
        mailbox=peer.mailbox_id, status=Item.Status.PENDING, tag__startswith="mesh:waiting:"
    ).values_list("pk", flat=True)
    waiting = _waiting().filter(deliveries__recipient=peer, deliveries__acknowledged_at=None).order_by("pk")
    hopeless = [found for message in waiting if (found := _hopeless(message))]
    reasons = dict.fromkeys(hopeless, GONE) | dict.fromkeys(own, OFF_THE_MESH)
    return sum(_give_up(pk, reasons[pk]) for pk in sorted(reasons))


def end_if_hopeless(message: Message) -> bool:
    """After a delivery died. The caller holds the message's lock."""
    wait = _hopeless(message)
    return wait is not None and _give_up(wait, GONE)


def mutual(sender: int, mailboxes: Iterable[int]) -> dict[int, str]:
    """Of the peers of these mailboxes, each one that itself waits for the sender, and by which message. Found from the few requests
    that are open there, not from all that they ever wrote."""
    open_there = Item.objects.filter(mailbox__in=list(mailboxes), status=Item.Status.PENDING).values("pk")
    rows = Message.objects.filter(
        wait__in=open_there,
        deliveries__recipient=sender,
        deliveries__acknowledged_at=None,
        deliveries__status__in=[Delivery.Status.QUEUED, Delivery.Status.DELIVERED],
    )
    return dict(rows.order_by("pk").values_list("sender_id", "pk"))


def _waiting() -> QuerySet[Message]:
    open_waits = Item.objects.filter(status=Item.Status.PENDING, tag__startswith="mesh:waiting:").values("pk")
    return Message.objects.filter(wait__in=open_waits)


def _hopeless(message: Message) -> int | None:
    """The wait of a message that can no longer be met, counted under the message's lock."""
    lock(message)
    retired = Exists(Peer.objects.filter(pk=OuterRef("recipient"), retired_at__isnull=False))  # looked up one by one
    possible = Q(acknowledged_at__isnull=False) | (~retired & ~Q(status=Delivery.Status.DEAD))
    return None if message.deliveries.filter(possible).count() >= message.quorum else message.wait_id


def _give_up(wait: int, reason: str) -> bool:
    try:
        items.undeliverable(wait, reason)
    except AlreadyClosed:
        return False
    return True


def _line(row: Delivery, share: int) -> str:
    said = "\n    ".join(clean(row.ack_note, limit=share).splitlines())
    return f"{row.recipient}: {said or ('replied' if row.replied else 'acknowledged')}"  # type: ignore[attr-defined]
