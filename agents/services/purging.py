"""Forgetting conversations that ended long ago. Never one that is open, or for which an answer may still come."""

from datetime import timedelta

from django.db import connection, transaction
from django.db.models import Exists, OuterRef, QuerySet

from agents.models import Conversation, Message, Task, ToolCall, Turn
from agents.services.endings import OPEN
from inbox.clock import now
from inbox.models import Item

BATCH = 100


def purge(older_than: timedelta) -> dict[str, int]:
    """Delete conversations that were closed longer ago, each with everything under it in a transaction of its own; returns how
    many. Mail is kept: it belongs to the mailbox."""
    unread = Item.objects.filter(origin=OuterRef("pk")).exclude(status=Item.Status.CONSUMED)
    open_turn = Turn.objects.filter(conversation=OuterRef("pk"), status__in=OPEN)
    old = Conversation.objects.filter(
        ~Exists(unread),
        ~Exists(open_turn),
        status=Conversation.Status.CLOSED,
        closed_at__lt=now(-older_than.total_seconds()),
    )
    deleted, last = 0, 0
    while ids := list(old.filter(pk__gt=last).order_by("pk").values_list("pk", flat=True)[:BATCH]):
        deleted += sum(_delete(old, pk) for pk in ids)
        last = ids[-1]
    return {"closed conversations": deleted}


def _delete(old: QuerySet[Conversation], pk: int) -> bool:
    with transaction.atomic():
        rows = old.select_for_update(skip_locked=connection.features.has_select_for_update_skip_locked)
        if not rows.filter(pk=pk).exists():
            return False
        # From the leaves up, so that nothing is read into memory.
        for leaves in (
            ToolCall.objects.filter(turn__conversation=pk),
            Message.objects.filter(conversation=pk),
            Task.objects.filter(conversation=pk),
            Turn.objects.filter(conversation=pk),
            Conversation.objects.filter(pk=pk),
        ):
            leaves.delete()
    return True
