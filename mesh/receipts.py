"""What became of a message, recipient by recipient."""

from typing import Any

from django.db.models import QuerySet

from mesh.models import Delivery, Message, Peer


def receipts(message: Message, *, recipient: Peer | None = None, most: int | None = None) -> list[dict[str, Any]]:
    """The receipts of a message, at most so many, or one recipient's, in a fixed number of queries."""
    rows = message.deliveries.select_related("recipient__mailbox", "item").order_by("pk")
    if recipient is not None:
        rows = rows.filter(recipient=recipient)
    return [receipt(row) for row in rows[:most]]


def received(rows: QuerySet[Delivery], count: int) -> list[Delivery]:
    """The newest of these deliveries, with what is shown of them."""
    return list(rows.select_related("message__sender__mailbox", "recipient__mailbox", "item").order_by("-pk")[:count])


def receipt(row: Delivery) -> dict[str, Any]:
    """Queued, delivered or dead; read is the item's `consumed_at` and turn."""
    return {
        "id": row.pk,
        "to": str(row.recipient),
        "status": row.status,
        "reason": row.reason,
        "delivered_at": row.delivered_at,
        "read_at": row.item.consumed_at if row.item else None,
        "read_in": str(row.item.consumed_in) if row.item and row.item.consumed_in else None,
        "acknowledged_at": row.acknowledged_at,
        "note": row.ack_note,
    }
