"""The waits of blocking sends: ended by a reply or by enough acknowledgements, or when they can no longer be met.

Acknowledgements are counted under the message row's lock, so of two at once one is the last. The item itself has one winner."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from inbox.errors import AlreadyClosed
from inbox.models import Item
from inbox.services import items, letters, statements
from inbox.text import MAX_BYTES, clean, first_line
from mesh.models import Delivery, Message, Peer

GONE = "The recipient is no longer reachable; nobody will answer this."
TOO_FEW = "Too few recipients are left who could answer this."
NOT_DELIVERED = "{} answered, but the chain of messages was too long, so its answer was not delivered. Staff see it."
OFF_THE_MESH = "You were taken off the mesh; nobody can answer this any more."
WAITING = "mesh:waiting:"
# How many have acknowledged, or still may: whoever is retired or was not reached has left. The peers are looked up one by one.
POSSIBLE = (
    "(SELECT COUNT(*) FROM mesh_delivery d WHERE d.message_id = m.id AND (d.acknowledged_at IS NOT NULL OR (d.status <> 'dead'"
    " AND NOT EXISTS (SELECT 1 FROM mesh_peer p WHERE p.id = d.recipient_id AND p.retired_at IS NOT NULL))))"
)
ACKNOWLEDGED = "(SELECT COUNT(*) FROM mesh_delivery d WHERE d.message_id = m.id AND d.acknowledged_at IS NOT NULL)"
LEAST_OF_A_NOTE = 200  # bytes, however many there are


def lock(message: Message) -> Message:
    """The message, its row locked: after the sender's mailbox, before any delivery or item."""
    list(Message.objects.select_for_update(no_key=True).filter(pk=message.pk).values_list("pk"))
    return message


def is_open(message: Message) -> bool:
    """Whether somebody still waits for it. If so the wait is locked: nobody else ends it before the caller's word stands, or the
    one who does would not know of it."""
    if message.wait_id is None:
        return False
    wait = Item.objects.select_for_update(no_key=True).filter(pk=message.wait_id, status=Item.Status.PENDING)
    return wait.exists()


def enough(message: Message) -> bool:
    """Whether the acknowledgements of distinct recipients reach the quorum. The caller holds the message's lock."""
    return _standing([message.pk])[0].met


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
    lines = [_line(row, share) for row in found]
    if message.everyone:
        lines += [f"{row.recipient}: left without an answer" for row in _left(message)]
    return clean("\n".join(lines), limit=MAX_BYTES)


def tell(message: Message, said: str) -> None:
    """What stands beside the end of a wait, as a letter of its own; the end is what wakes."""
    letters.drop(
        message.sender.mailbox_id,
        tag=f"mesh:acks:{message.pk}",
        request=f"What the others said to your message {message.pk}: {first_line(message.content)}",
        response=said,
        by="the other recipients",
        via=Item.Via.MESH,
        wakes=False,
        reserved=True,
    )


def ended_by_others(ended: list[int]) -> None:
    """Waits that staff, their agent, the deadline or the system ended, with what came before of those who acknowledged: whoever
    acknowledges holds the wait's lock, so none is missed and none is told twice."""
    told = Exists(Delivery.objects.filter(message=OuterRef("pk")).exclude(acknowledged_at=None))
    for message in Message.objects.filter(told, wait__in=ended).select_related("sender__mailbox"):
        tell(message, notes(message))


def recipient_is_gone(peer: Peer) -> int:
    """After a peer retired: end its own waits, and those of others that can no longer be met, in a number of statements that does
    not grow with them: nobody sends meanwhile. Those that waited for everyone, and only for it, are met. Returns how many."""
    own = Item.objects.filter(mailbox=peer.mailbox_id, status=Item.Status.PENDING, tag__startswith=WAITING)
    open_waits = Item.objects.filter(status=Item.Status.PENDING, tag__startswith=WAITING).values("pk")
    waiting = Message.objects.filter(wait__in=open_waits)
    waiting = waiting.filter(deliveries__recipient=peer, deliveries__acknowledged_at=None)
    return end_what_is_decided(
        list(waiting.values_list("pk", flat=True)), dict.fromkeys(own.values_list("pk", flat=True), OFF_THE_MESH)
    )


def end_what_is_decided(messages: list[str], also: Mapping[int, str] | None = None) -> int:
    """After somebody left these messages' recipients: end their waits that are met by the others, or can no longer be; and `also`
    these, undeliverable, each with its reason. Returns how many."""
    list(Message.objects.select_for_update(no_key=True).filter(pk__in=messages).order_by("pk").values_list("pk"))
    found = _standing(messages)
    reasons = {one.wait: GONE if one.quorum == 1 else TOO_FEW for one in found if one.hopeless} | dict(also or {})
    met = {one.wait: one.message for one in found if one.met}
    both = Item.objects.select_for_update(no_key=True).filter(pk__in=[*reasons, *met], status=Item.Status.PENDING)
    still = set(both.order_by("pk").values_list("pk", flat=True))
    for message in Message.objects.filter(pk__in=[met[wait] for wait in still & set(met)]):
        end(message, notes(message), "those who are left")
    return len(still & set(met)) + items.undeliverable_all(reasons)


def answer_was_refused(message: Message, peer: Peer) -> bool:
    """After a peer's answer was refused: end the wait, undeliverable, where it cannot be met without that peer. False where it is
    closed, where the peer had acknowledged before, or where others may still answer."""
    with transaction.atomic():
        mine = lock(message).deliveries.filter(recipient=peer, acknowledged_at=None)
        if not mine.exists():
            return False
        lost = [one.wait for one in _standing([message.pk]) if one.needs_each]
        return bool(items.undeliverable_all(dict.fromkeys(lost, NOT_DELIVERED.format(peer))))


def mutual(sender: int, mailboxes: Any) -> dict[int, str]:
    """Of the peers of these mailboxes (ids, or a query for them), each one that itself waits for the sender, and by which message.
    Found from the few requests that are open there, not from all that they ever wrote."""
    open_there = Item.objects.filter(mailbox__in=mailboxes, status=Item.Status.PENDING).values("pk")
    rows = Message.objects.filter(
        wait__in=open_there,
        deliveries__recipient=sender,
        deliveries__acknowledged_at=None,
        deliveries__status__in=[Delivery.Status.QUEUED, Delivery.Status.DELIVERED],
    )
    return dict(rows.order_by("pk").values_list("sender_id", "pk"))


class Standing(NamedTuple):
    """How a message that somebody waits for stands."""

    message: str
    wait: int
    quorum: int
    everyone: bool
    acknowledged: int
    possible: int

    @property
    def met(self) -> bool:
        needed = min(self.quorum, self.possible) if self.everyone else self.quorum
        return self.acknowledged >= max(needed, 1)

    @property
    def hopeless(self) -> bool:
        return self.possible < (1 if self.everyone else self.quorum)

    @property
    def needs_each(self) -> bool:
        """Of those who have not acknowledged, not one may be missing."""
        return self.possible <= (self.acknowledged + 1 if self.everyone else self.quorum)


def _standing(messages: list[str]) -> list[Standing]:
    """Counted under the messages' locks."""
    if not messages:
        return []
    marks = ", ".join(["%s"] * len(messages))
    rows = statements.rows(
        f"SELECT m.id, m.wait_id, m.quorum, m.everyone, {ACKNOWLEDGED}, {POSSIBLE} FROM mesh_message m"
        f" WHERE m.id IN ({marks}) AND m.wait_id IS NOT NULL",
        messages,
    )
    return [Standing(*row) for row in rows]


def _left(message: Message) -> QuerySet[Delivery]:
    gone = Q(status=Delivery.Status.DEAD) | Q(recipient__retired_at__isnull=False)
    rows = message.deliveries.filter(gone, acknowledged_at=None)
    return rows.select_related("recipient__mailbox").order_by("pk")


def _line(row: Delivery, share: int) -> str:
    said = clean("\n    ".join(row.ack_note.splitlines()), limit=share)  # indented first: that counts too
    return f"{row.recipient}: {said or ('replied' if row.replied else 'acknowledged')}"  # type: ignore[attr-defined]
