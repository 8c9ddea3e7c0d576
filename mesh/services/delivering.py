"""From a message to its recipients' items. With the database's transport that is the sender's own transaction."""

import logging
from collections.abc import Sequence
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import QuerySet

from inbox.clock import clock
from inbox.errors import NotAllowed
from inbox.models import Item
from inbox.services import letters
from mesh.errors import DeliveryNotFound, NotDead
from mesh.models import Delivery, Message, Peer
from mesh.services import bulk, waits
from mesh.transports import get_transport

log = logging.getLogger(__name__)

RETIRED = "the recipient is retired"


def dispatch(message: Message, recipients: Sequence[Peer]) -> None:
    """Hand a message to the transport, in the sender's transaction: delivered there and then, or queued for later."""
    if get_transport().in_transaction:
        for peer in recipients:
            words = request_of(message, peer.pk)
            bulk.deliver_to(message, peer, tag=tag("mesh:from:", message.sender), request=words)
        return
    rows = [Delivery(message=message, sender=message.sender, recipient=peer) for peer in recipients]
    Delivery.objects.bulk_create(rows)
    get_transport().send(message, [row.pk for row in rows])


def dispatch_all(message: Message, reach: QuerySet[Peer]) -> int:
    """The same for a broadcast, in a number of statements that does not grow with its recipients. Returns how many they are."""
    if get_transport().in_transaction:
        return bulk.deliver_to_all(
            message, reach, tag=tag("mesh:broadcast:from:", message.sender), request=request_of(message)
        )
    recipients = list(reach)
    dispatch(message, recipients)
    return len(recipients)


def record(message: Message, recipients: Sequence[Peer], *, item: int | None) -> None:
    """A reply that ended a wait: it is delivered as that wait's answer."""
    Delivery.objects.bulk_create(
        Delivery(
            message=message,
            sender=message.sender,
            recipient=peer,
            item_id=item,
            status=Delivery.Status.DELIVERED,
            delivered_at=clock(),
        )
        for peer in recipients
    )


def deliver(delivery_id: int) -> bool:
    """queued -> delivered, with the recipient's item; or -> dead where the recipient is gone. False where it was not queued."""
    row = (
        Delivery.objects.select_related("message__sender__mailbox", "recipient__mailbox").filter(pk=delivery_id).first()
    )
    if row is None:
        raise DeliveryNotFound
    if row.recipient.retired_at is not None:
        return bury(delivery_id, RETIRED)
    with transaction.atomic():
        queued = Delivery.objects.filter(pk=delivery_id, status=Delivery.Status.QUEUED)
        if not queued.update(status=Delivery.Status.DELIVERED, delivered_at=clock()):
            return False
        message = row.message
        prefix = "mesh:broadcast:from:" if message.kind == Message.Kind.BROADCAST else "mesh:from:"
        item = letters.drop(
            row.recipient.mailbox_id,
            tag=tag(prefix, message.sender),
            request=request_of(message, row.recipient_id),
            response=message.content,
            by=str(message.sender),
            via=Item.Via.MESH,
            # An outside peer has no agent here to wake.
            wakes=bool(row.recipient.mailbox.agent),
            reserved=True,
        )
        Delivery.objects.filter(pk=delivery_id).update(item=item)
    return True


def bury(delivery_id: int, reason: str) -> bool:
    """queued -> dead, with a reason that staff see; a wait that can no longer be met ends."""
    with transaction.atomic():
        queued = Delivery.objects.filter(pk=delivery_id, status=Delivery.Status.QUEUED)
        if not queued.update(status=Delivery.Status.DEAD, reason=reason[:200]):
            return False
        waits.end_if_hopeless(Delivery.objects.values_list("message_id", flat=True).get(pk=delivery_id))
    return True


def deliver_queued(limit: int = 200) -> int:
    """The sweep's part: deliveries that a transport has left queued, the oldest first, so that each pair keeps its order."""
    found = Delivery.objects.filter(status=Delivery.Status.QUEUED).order_by("pk").values_list("pk", flat=True)[:limit]
    return sum(deliver(pk) for pk in list(found))


def send_again(user: Any, delivery_id: int) -> Delivery:
    """dead -> queued -> delivered, or dead again. Raises DeliveryNotFound, NotDead, NotAllowed."""
    _require(user)
    with transaction.atomic():
        dead = Delivery.objects.filter(pk=delivery_id, status=Delivery.Status.DEAD)
        if not dead.update(status=Delivery.Status.QUEUED, reason="", closed_at=None):
            raise _not_dead(delivery_id)
        _log(user, delivery_id, "Sent again.")
        deliver(delivery_id)
    return Delivery.objects.get(pk=delivery_id)


def close(user: Any, delivery_id: int) -> Delivery:
    """Take a dead delivery off the list of what needs attention. Raises DeliveryNotFound, NotDead, NotAllowed."""
    _require(user)
    with transaction.atomic():
        dead = Delivery.objects.filter(pk=delivery_id, status=Delivery.Status.DEAD, closed_at=None)
        if not dead.update(closed_at=clock()):
            raise _not_dead(delivery_id)
        _log(user, delivery_id, "Closed.")
    return Delivery.objects.get(pk=delivery_id)


def request_of(message: Message, recipient: int | None = None) -> str:
    """The server's words above a letter: sender and message id, and what the sender expects."""
    kind = "Broadcast" if message.kind == Message.Kind.BROADCAST else "Message"
    said = f"{kind} {message.pk} from {message.sender}"
    if message.in_reply_to_id:
        said += f", in reply to {message.in_reply_to_id}"
    if message.blocking:
        said += ". The sender waits for your reply (in_reply_to this id) or acknowledgement"
        if recipient and (other := waits.mutual(message.sender_id, recipient)):
            said += f", while you wait for it to answer your message {other}"
    return said + "."


def tag(prefix: str, peer: Peer) -> str:
    """`mesh:from:<address>`. What a tag cannot hold is written as a dash, and its length is bounded; the request names the peer."""
    address = "".join(char if char.isalnum() or char in "_.:/-" else "-" for char in str(peer))
    return (prefix + address)[:120]


def _require(user: Any) -> None:
    if not user.has_perm("mesh.manage_mesh"):
        raise NotAllowed("You need the permission mesh.manage_mesh for this.")


def _not_dead(delivery_id: int) -> Exception:
    return NotDead() if Delivery.objects.filter(pk=delivery_id).exists() else DeliveryNotFound()


def _log(user: Any, delivery_id: int, message: str) -> None:
    LogEntry.objects.create(
        user_id=user.pk,
        content_type=ContentType.objects.get_for_model(Delivery),
        object_id=str(delivery_id),
        object_repr=str(Delivery.objects.get(pk=delivery_id))[:200],
        action_flag=CHANGE,
        change_message=message,
    )
