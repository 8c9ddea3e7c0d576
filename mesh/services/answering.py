"""Acknowledging and replying: by an addressee only, whose first word on a message is what counts for the sender's wait.

Locks, in order: the message that is answered, its delivery, items."""

from dataclasses import dataclass

from django.db import transaction
from django.db.models import Exists, OuterRef

from inbox.clock import clock
from inbox.models import Item
from inbox.services import letters, reading
from inbox.text import check, first_line
from mesh.errors import MessageNotFound, NotAddressed
from mesh.models import Delivery, Message, Peer
from mesh.services import waits
from mesh.tags import tag_from


@dataclass(frozen=True)
class Acknowledged:
    """What an acknowledgement did."""

    message: Message
    first: bool  # false: this peer had acknowledged it, or replied to it, before
    waited: bool = False  # the sender waited for it, and for others, if it did not end the wait
    ended_wait: bool = False


def acknowledge(peer: Peer, message: str, note: str = "") -> Acknowledged:
    """Tell the sender that this was read and taken up. Only by an addressee; a second time changes nothing.

    Where enough have, the sender's wait ends with their notes. Later ones, and those of messages that nobody waits for, arrive as
    mail that does not wake. Raises MessageNotFound, NotAddressed, and the errors of text.check."""
    if note:
        check(note, what="note")
    with transaction.atomic():
        found = waits.lock(addressed(peer, message))
        if not _acknowledge(found, peer, note):
            return Acknowledged(found, False)
        if waits.is_open(found):
            ended = waits.enough(found) and waits.end(found, waits.notes(found), str(peer))
            return Acknowledged(found, True, True, ended)
        if found.sender.retired_at is None:  # else it stands on the receipt alone
            _tell(found, peer, note)
    return Acknowledged(found, True)


def reply(parent: Message, sender: Peer, reply: Message) -> bool:
    """A reply acknowledges. Where it is what the parent's sender waits for, it ends the wait and is read there, not twice; what
    others said when they acknowledged goes with it, as mail of its own."""
    found = waits.lock(parent)
    if not _acknowledge(found, sender, "") or not waits.is_open(found) or not waits.enough(found):
        return False
    if not waits.end(found, reply.content, f"{sender}, message {reply.pk}"):
        return False
    if found.quorum > 1 and (said := waits.notes(found, but=sender.pk)):
        waits.tell(found, said)
    return True


def addressed(peer: Peer, message: str) -> Message:
    """A message that reached this peer. Those of others are as good as unknown. Raises MessageNotFound, NotAddressed."""
    found = find_message(peer, message)
    if not found.reached_it:  # type: ignore[attr-defined]  # annotated
        raise NotAddressed("This is your own message; only an addressee may acknowledge it or reply to it.")
    return found


def find_message(peer: Peer, message: str) -> Message:
    """A message that this peer sent, or that reached it. Raises MessageNotFound."""
    reached = Delivery.objects.filter(message=OuterRef("pk"), recipient=peer, status=Delivery.Status.DELIVERED)
    rows = Message.objects.select_related("sender__mailbox").annotate(reached_it=Exists(reached))
    found = rows.filter(pk=message.strip().lower()).first()
    if found is None or not (found.reached_it or found.sender_id == peer.pk):
        raise MessageNotFound
    return found


def _acknowledge(message: Message, peer: Peer, note: str) -> bool:
    """Once. Where no agent of ours reads the peer's mail, this is also when it is known to be read."""
    mine = Delivery.objects.filter(message=message, recipient=peer)
    first = mine.filter(acknowledged_at=None).update(acknowledged_at=clock(), ack_note=note)
    if first and not peer.mailbox.agent and (item := mine.values_list("item_id", flat=True).get()):
        reading.consume([item], None)
    return bool(first)


def _tell(message: Message, peer: Peer, note: str) -> None:
    letters.drop(
        message.sender.mailbox_id,
        tag=tag_from("mesh:ack:from:", peer),
        request=f"Acknowledgement by {peer} of your message {message.pk}: {first_line(message.content)}",
        response=note or "Acknowledged.",
        by=str(peer),
        via=Item.Via.MESH,
        wakes=False,
        reserved=True,
    )
