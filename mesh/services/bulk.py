"""Delivering in the sender's transaction: one statement for the items of all recipients, one for the deliveries."""

import json
from collections.abc import Sequence
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from inbox.models import Item
from inbox.services import letters
from mesh.models import Message, Peer

PAIRS = {
    "postgresql": "SELECT (v.value->>0)::bigint AS item, (v.value->>1)::bigint AS mailbox FROM json_array_elements(%s::json) v",
    "sqlite": "SELECT json_extract(v.value, '$[0]') AS item, json_extract(v.value, '$[1]') AS mailbox FROM json_each(%s) v",
}


def deliver_to_all(message: Message, reach: QuerySet[Peer], *, tag: str, request: str) -> int:
    """To every peer of the queryset. Returns how many they are."""
    chosen = reach.order_by().values("mailbox_id", "mailbox__agent")
    return _deliver(message, chosen.query.sql_with_params(), tag, request)


def deliver_to(message: Message, recipient: Peer, *, tag: str, request: str) -> None:
    """To one peer."""
    chosen = "SELECT m.id, m.agent FROM inbox_mailbox m WHERE m.id = %s"
    _deliver(message, (chosen, [recipient.mailbox_id]), tag, request)


def _deliver(message: Message, mailboxes: tuple[str, Sequence[Any]], tag: str, request: str) -> int:
    made = letters.drop_to_all(
        mailboxes, tag=tag, request=request, response=message.content, by=str(message.sender), via=Item.Via.MESH
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO mesh_delivery (message_id, sender_id, recipient_id, item_id, status, reason, ack_note, created_at,"
            " delivered_at) SELECT %s, %s, p.id, pairs.item, 'delivered', '', '', glove_clock(0), glove_clock(0)"
            f" FROM ({PAIRS[connection.vendor]}) pairs JOIN mesh_peer p ON p.mailbox_id = pairs.mailbox",
            [message.pk, message.sender_id, json.dumps(made)],
        )
    return len(made)
