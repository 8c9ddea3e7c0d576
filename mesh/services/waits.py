"""The waits of blocking sends: ended by a reply or by enough acknowledgements, or when they can no longer be met.

Acknowledgements are counted under the message row's lock, so of two at once one is the last. The item itself has one winner."""

from django.db.models import F

from inbox.errors import AlreadyClosed
from inbox.models import Item
from inbox.services import items
from mesh.models import Delivery, Message

GONE = "The recipient is no longer reachable; nobody will answer this."


def lock(message_id: str) -> Message:
    """The message, its row locked: after the sender's mailbox, before any item."""
    return Message.objects.select_for_update(no_key=True).get(pk=message_id)


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


def notes(message: Message) -> str:
    """What those who acknowledged said, one line for each."""
    rows = (
        message.deliveries.exclude(acknowledged_at=None)
        .select_related("recipient__mailbox")
        .order_by("acknowledged_at")
    )
    return "\n".join(f"{row.recipient}: {row.ack_note or 'acknowledged'}" for row in rows)


def recipient_is_gone(peer_id: int) -> int:
    """After a peer retired or a delivery died: end each wait that can no longer be met. Returns how many."""
    waiting = Message.objects.filter(
        deliveries__recipient=peer_id, deliveries__acknowledged_at=None, wait__status=Item.Status.PENDING
    )
    return sum(_end_if_hopeless(pk) for pk in waiting.order_by("pk").values_list("pk", flat=True))


def end_if_hopeless(message_id: str) -> int:
    """The same for one message."""
    return _end_if_hopeless(message_id)


def _end_if_hopeless(message_id: str) -> int:
    message = lock(message_id)
    rows = message.deliveries.all()
    acknowledged = rows.exclude(acknowledged_at=None).count()
    possible = (
        rows.filter(acknowledged_at=None, recipient__retired_at=None).exclude(status=Delivery.Status.DEAD).count()
    )
    if acknowledged + possible >= message.quorum or message.wait_id is None:
        return 0
    try:
        items.undeliverable(message.wait_id, GONE)
    except AlreadyClosed:
        return 0
    return 1


def mutual(sender_id: int, recipient_id: int) -> str | None:
    """The message by which the recipient itself waits for the sender, if there is one."""
    rows = Delivery.objects.filter(
        sender=recipient_id, recipient=sender_id, acknowledged_at=None, message__wait__status=Item.Status.PENDING
    )
    return rows.annotate(found=F("message_id")).order_by("-pk").values_list("found", flat=True).first()
