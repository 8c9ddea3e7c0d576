"""Forgetting messages that are done with. Never one that waits, is under way, unread, or dead without anybody having closed it."""

from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from inbox.clock import now
from inbox.models import Item
from mesh.models import Delivery, Message, StoppedChain

BATCH = 200


def purge(older_than: timedelta) -> dict[str, int]:
    """Delete messages that are older, with their receipts, in batches, each a transaction of its own; and stopped chains of which
    staff took note. Returns how many of each. Before the letters are purged: a receipt says when they were read."""
    old = now(-older_than.total_seconds())
    open_ = Delivery.objects.filter(message=OuterRef("pk")).filter(
        Q(status=Delivery.Status.QUEUED)
        | Q(status=Delivery.Status.DEAD, closed_at=None)
        | (Q(item__isnull=False) & (~Q(item__status=Item.Status.CONSUMED) | Q(item__consumed_at__gte=old)))
    )
    waiting = Item.objects.filter(pk=OuterRef("wait"), status=Item.Status.PENDING)
    done = Message.objects.filter(~Exists(open_), ~Exists(waiting), created_at__lt=old)
    seen = StoppedChain.objects.filter(created_at__lt=old, seen_by__isnull=False)
    return {"mesh messages": _delete(done), "stopped chains": seen.delete()[0]}


def _delete(done: QuerySet[Message]) -> int:
    deleted, last = 0, ""
    while ids := list(done.filter(pk__gt=last).order_by("pk").values_list("pk", flat=True)[:BATCH]):
        with transaction.atomic():
            Delivery.objects.filter(message__in=ids).delete()
            _, counts = Message.objects.filter(pk__in=ids).delete()
        deleted += counts.get(Message._meta.label, 0)
        last = ids[-1]
    return deleted
