"""The inbox's tables. Only `inbox.services` writes the stateful ones."""

from inbox.models.access import ApiKey, IdempotencyKey
from inbox.models.desk import CannedAnswer
from inbox.models.items import Item, Mailbox, TagGroup
from inbox.models.ways import (
    DeclaredSchedule,
    EarlyAnswer,
    Notification,
    ResolveLink,
    ResolverRun,
    Sweep,
    WebhookReceipt,
)

__all__ = [
    "ApiKey",
    "CannedAnswer",
    "DeclaredSchedule",
    "EarlyAnswer",
    "IdempotencyKey",
    "Item",
    "Mailbox",
    "Notification",
    "ResolveLink",
    "ResolverRun",
    "Sweep",
    "TagGroup",
    "WebhookReceipt",
]
