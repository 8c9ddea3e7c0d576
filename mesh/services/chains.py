"""Chains of messages: where a send stands in one, and what stops it. The budget is what keeps polite agents from thanking for ever.

A send made in a turn inherits root and hops from the mesh mail that its conversation has read since the last user message, with or
without `in_reply_to`. Where mail of several chains was read, the chain is that of the message replied to, else of the latest mail;
within it the longest way counts. So every chain ends, and a new one is not charged for an old one."""

from collections.abc import Callable
from dataclasses import dataclass

from django.db import connection, transaction

from mesh.errors import TooFast, TooManyHops
from mesh.limits import mesh_limits
from mesh.models import Message, Peer, StoppedChain
from mesh.services import waits

LOOK_BACK = 200  # entries of the conversation: whatever stands before them, a send looks no further
# The mesh mail among the latest entries, from the last user message on, the latest first; an ended wait stands for the message
# that waited, and for the reply that ended it.
READ = f"""
WITH recent AS (
    SELECT place, kind, sender, item_id FROM agents_message WHERE conversation_id = %s AND place IS NOT NULL
    ORDER BY place DESC LIMIT {LOOK_BACK}
), mail AS (
    SELECT place, item_id FROM recent WHERE item_id IS NOT NULL
    AND place > COALESCE((SELECT MAX(place) FROM recent WHERE kind = 'message' AND sender = 'user'), 0)
)
SELECT mail.place, m.root, m.hops FROM mail
    JOIN mesh_delivery d ON d.item_id = mail.item_id JOIN mesh_message m ON m.id = d.message_id
UNION ALL
SELECT mail.place, m.root, m.hops FROM mail JOIN mesh_message m ON m.wait_id = mail.item_id
ORDER BY 1 DESC, 3 DESC
"""


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


def check_budget(place: Place, sender: Peer, content: str, parent: Message | None = None) -> None:
    """Raise TooManyHops past the budget. Its `remember` writes the one notice to staff, after the refusal was rolled back; and ends
    the wait for what it would have answered, where nobody else can."""
    budget = mesh_limits().hops
    if place.hops > budget:
        raise TooManyHops(_notice(place.root, sender, content, parent), hops=place.hops, budget=budget)


def check_rate(sent: int) -> None:
    """Raise TooFast where this many messages within a minute are too many."""
    allowed = mesh_limits().messages_per_minute
    if sent >= allowed:
        raise TooFast(f"You have sent {allowed} messages within a minute, which is the limit. Wait a minute.")


def _notice(root: str, sender: Peer, content: str, parent: Message | None) -> Callable[[], None]:
    def write() -> None:
        with transaction.atomic():
            StoppedChain.objects.bulk_create(
                [StoppedChain(root=root, sender=sender, content=content)], ignore_conflicts=True
            )
            if parent is not None:
                waits.answer_was_refused(parent, sender)

    return write


def _read_since_user(conversation: int) -> list[tuple[str, int]]:
    """(root, hops) of the mesh mail, the latest first."""
    with connection.cursor() as cursor:
        cursor.execute(READ, [conversation])
        return [(root, hops) for _, root, hops in cursor.fetchall()]
