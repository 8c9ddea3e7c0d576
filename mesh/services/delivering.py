"""From a message to its recipients' items. With the database's transport that is the sender's own transaction."""

import logging
from collections.abc import Mapping, Sequence

from django.db import InterfaceError, InternalError, OperationalError, connection, transaction
from django.db.models import Case, F, QuerySet, TextField, Value, When

from inbox.clock import clock
from inbox.errors import InboxError
from inbox.models import Item
from inbox.services import letters
from mesh.errors import DeliveryNotFound
from mesh.models import Delivery, Message, Peer
from mesh.services import hot, locks, waits
from mesh.tags import tag_from
from mesh.transports import get_transport

log = logging.getLogger(__name__)

RETIRED = "the recipient is retired"
INFRASTRUCTURE = (OperationalError, InternalError, InterfaceError)


def dispatch(message: Message, recipients: Sequence[hot.Other], mutual: Mapping[int, str]) -> None:
    """Write a message and hand it to the transport, in the sender's transaction: delivered there and then, or queued for later.
    `mutual` names, by recipient, the message by which that one waits for the sender."""
    if get_transport().in_transaction:
        words = [(peer, request_of(message, mutual.get(peer.pk))) for peer in recipients]
        hot.write(message, hot.named(words), tag_of(message))
        return
    hot.insert_message(message)
    rows = [Delivery(message=message, sender=message.sender, recipient_id=peer.pk) for peer in recipients]
    Delivery.objects.bulk_create(rows)
    get_transport().send(message, [row.pk for row in rows])


def dispatch_all(message: Message, reach: QuerySet[Peer], mutual: Mapping[int, str]) -> int:
    """The same for a broadcast, in a number of statements that does not grow with its recipients. Returns how many they are."""
    if get_transport().in_transaction:
        rows = reach.order_by().values_list("mailbox_id").annotate(agent=F("mailbox__agent"))
        words = [When(pk=peer, then=Value(request_of(message, theirs))) for peer, theirs in mutual.items()]
        usual = Value(request_of(message))
        rows = rows.annotate(request=Case(*words, default=usual, output_field=TextField()) if words else usual)
        return hot.write(message, rows.query.sql_with_params(), tag_of(message))
    recipients = [hot.Other.of(peer) for peer in reach]
    dispatch(message, recipients, mutual)
    return len(recipients)


def record(reply: Message, recipient: hot.Other, *, item: int | None) -> None:
    """A reply that ended a wait: it is delivered as that wait's answer."""
    hot.insert_message(reply)
    Delivery.objects.bulk_create(
        [
            Delivery(
                message=reply,
                sender=reply.sender,
                recipient_id=recipient.pk,
                item_id=item,
                status=Delivery.Status.DELIVERED,
                delivered_at=clock(),
            )
        ]
    )


def deliver(delivery_id: int) -> bool:
    """queued -> delivered, with the recipient's item; or -> dead where the recipient is gone. Whatever the same sender sent before
    and is still queued goes first, so that each pair keeps its order. False where it was not queued."""
    with transaction.atomic():
        locks.together()  # nobody retires meanwhile
        row = Delivery.objects.select_related("recipient").filter(pk=delivery_id).first()
        if row is None:
            raise DeliveryNotFound
        queued = Delivery.objects.filter(
            sender=row.sender_id, recipient=row.recipient_id, status=Delivery.Status.QUEUED, pk__lte=delivery_id
        ).order_by("pk")
        if row.recipient.retired_at is not None:
            moved = [bury(pk, RETIRED) for pk in list(queued.values_list("pk", flat=True))]
            return any(moved)
        queued = queued.select_related("message__sender__mailbox", "recipient__mailbox")
        moved = [_deliver(one) for one in queued.select_for_update(no_key=True, of=("self",))]
        return any(moved)


def bury(delivery_id: int, reason: str) -> bool:
    """queued -> dead, with a reason that staff see; a wait that can no longer be met ends."""
    with transaction.atomic():
        row = Delivery.objects.select_related("message").filter(pk=delivery_id).first()
        if row is None:
            raise DeliveryNotFound
        waits.lock(row.message)  # before the delivery, as who acknowledges does
        queued = Delivery.objects.filter(pk=delivery_id, status=Delivery.Status.QUEUED)
        if not queued.update(status=Delivery.Status.DEAD, reason=reason[:200] or "no reason was given"):
            return False
        waits.end_what_is_decided([row.message_id])
    return True


def deliver_queued(limit: int = 200) -> int:
    """The sweep's part: deliveries that a transport has left queued, the oldest first. One that cannot be delivered is dead, and
    does not hold the others up."""
    found = Delivery.objects.filter(status=Delivery.Status.QUEUED).order_by("pk").values_list("pk", flat=True)[:limit]
    return sum(_guarded(pk) for pk in list(found))


def deliver_or_bury(pk: int) -> bool:
    """queued -> delivered; or -> dead, with the reason, where it cannot be delivered, whatever that comes from."""
    try:
        return deliver(pk)
    except INFRASTRUCTURE:
        raise
    except Exception as error:
        log.exception("Delivery %s cannot be made; staff see why", pk)
        why = str(error) if isinstance(error, InboxError) else type(error).__name__
        return bury(pk, f"it could not be delivered: {why}")


def request_of(message: Message, mutual: str | None = None, *, ended: bool = False) -> str:
    """The server's words above a letter: sender and message id, and what the sender expects. `ended`: it waits no more, where a
    letter comes later than its message."""
    kind = "Broadcast" if message.kind == Message.Kind.BROADCAST else "Message"
    said = f"{kind} {message.pk} from {message.sender}"
    if message.in_reply_to_id:
        said += f", in reply to {message.in_reply_to_id}"
    if message.blocking and not ended:
        said += ". The sender waits for your reply (in_reply_to this id) or acknowledgement"
    if mutual:
        said += f", while you wait for it to answer your message {mutual}"
    return said + "."


def tag_of(message: Message) -> str:
    """Of a letter."""
    broadcast = message.kind == Message.Kind.BROADCAST
    return tag_from("mesh:broadcast:from:" if broadcast else "mesh:from:", message.sender)


def _deliver(row: Delivery) -> bool:
    queued = Delivery.objects.filter(pk=row.pk, status=Delivery.Status.QUEUED)
    if not queued.update(status=Delivery.Status.DELIVERED, delivered_at=clock()):
        return False
    message, recipient = row.message, row.recipient
    still = waits.is_open(message)
    mutual = waits.mutual(message.sender_id, [recipient.mailbox_id]) if still else {}
    item = letters.drop(
        recipient.mailbox_id,
        tag=tag_of(message),
        request=request_of(message, mutual.get(recipient.pk), ended=not still),
        response=message.content,
        by=str(message.sender),
        via=Item.Via.MESH,
        # An outside peer has no agent here to wake.
        wakes=bool(recipient.mailbox.agent),
        reserved=True,
    )
    Delivery.objects.filter(pk=row.pk).update(item=item)
    return True


def _guarded(pk: int) -> bool:
    """One that somebody holds locked for long does not hold up the others."""
    try:
        return deliver_or_bury(pk)
    except OperationalError:
        if not connection.is_usable():
            raise
        log.warning("Delivery %s was not made; the next sweep tries again", pk, exc_info=True)
        return False
