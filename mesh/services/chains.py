"""Chains of messages: where a send stands in one, and what stops it. The budget is what keeps polite agents from thanking for ever.

A send made in a turn inherits root and hops from the mesh mail that its conversation has read since the last user message, with or
without `in_reply_to`. Where mail of several chains was read, the chain is that of the message replied to, else of the latest mail;
within it the longest way counts. So every chain ends, and a new one is not charged for an old one."""

from collections.abc import Callable
from dataclasses import dataclass

from django.db.models import Max

from agents.models import Message as Entry
from mesh.errors import TooFast, TooManyHops
from mesh.limits import mesh_limits
from mesh.models import Delivery, Message, Peer, StoppedChain

LOOK_BACK = 500  # letters


@dataclass(frozen=True)
class Place:
    """Of a message in its chain. An empty root: it begins one."""

    root: str = ""
    hops: int = 0


def place_of(parent: Message | None, conversation: int | None) -> Place:
    """Where the next message stands."""
    read = _read_since_user(conversation) if conversation else []
    if parent:
        read = [(parent.root, parent.hops), *read]
    if not read:
        return Place()
    root = read[0][0]
    return Place(root, max(hops for other, hops in read if other == root) + 1)


def check_budget(place: Place, sender: Peer, content: str) -> None:
    """Raise TooManyHops past the budget. Its `remember` writes the one notice to staff, after the refusal was rolled back."""
    budget = mesh_limits().hops
    if place.hops > budget:
        raise TooManyHops(_notice(place.root, sender.pk, content), hops=place.hops, budget=budget)


def check_rate(sent: int) -> None:
    """Raise TooFast where this many messages within a minute are too many."""
    allowed = mesh_limits().messages_per_minute
    if sent >= allowed:
        raise TooFast(f"You have sent {allowed} messages within a minute, which is the limit. Wait a minute.")


def _notice(root: str, sender: int, content: str) -> Callable[[], None]:
    def write() -> None:
        StoppedChain.objects.bulk_create(
            [StoppedChain(root=root, sender_id=sender, content=content)], ignore_conflicts=True
        )

    return write


def _read_since_user(conversation: int) -> list[tuple[str, int]]:
    """(root, hops) of the mesh mail, the latest first. An ended wait stands for the message that waited."""
    entries = Entry.objects.filter(conversation=conversation, place__isnull=False)
    asked = entries.filter(kind=Entry.Kind.MESSAGE, sender=Entry.Sender.USER).aggregate(last=Max("place"))["last"] or 0
    mail = entries.filter(kind=Entry.Kind.INBOX, place__gt=asked, item__tag__startswith="mesh:").order_by("-place")
    ids = list(mail.values_list("item_id", flat=True)[:LOOK_BACK])
    if not ids:
        return []
    known = dict[int, tuple[str, int]]()
    for item, root, hops in Message.objects.filter(wait_id__in=ids).values_list("wait_id", "root", "hops"):
        known[item] = (root, hops)
    letters = Delivery.objects.filter(item_id__in=ids).values_list("item_id", "message__root", "message__hops")
    for item, root, hops in letters:  # a reply that ended a wait is one hop further than the message that waited
        known[item] = max((root, hops), known.get(item, ("", -1)), key=lambda place: place[1])
    return [known[item] for item in ids if item in known]
