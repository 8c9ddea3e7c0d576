"""Forgetting what nobody will ask for again. Never a pending or an unread item."""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Max, QuerySet

from inbox.clock import now
from inbox.models import EarlyAnswer, IdempotencyKey, Item, ResolverRun, WebhookReceipt

BATCH = 500
PROMISED = timedelta(hours=24)  # how long keys, receipts and early answers are kept whatever is asked


def purge(older_than: timedelta) -> dict[str, int]:
    """Delete what is older, in batches, each a transaction of its own; returns how many rows of each kind.

    Idempotency keys, webhook ids, early answers (each after a day at the earliest), runs of resolvers (the last of each stays:
    it says which instant had its run) and consumed items with their links and notifications.
    """
    old = now(-older_than.total_seconds())
    kept = now(-max(older_than, PROMISED, timedelta(seconds=settings.INBOX_EARLY_ANSWER_S)).total_seconds())
    newest = ResolverRun.objects.values("name").annotate(last=Max("pk")).values("last")
    return {
        "idempotency keys": _delete(IdempotencyKey.objects.filter(created_at__lt=kept)),
        "webhook ids": _delete(WebhookReceipt.objects.filter(created_at__lt=kept)),
        "early answers": _delete(EarlyAnswer.objects.filter(created_at__lt=kept)),
        "resolver runs": _delete(ResolverRun.objects.filter(started_at__lt=old).exclude(pk__in=newest)),
        "consumed items": _delete(Item.objects.filter(status=Item.Status.CONSUMED, consumed_at__lt=old)),
    }


def _delete(rows: QuerySet[Any]) -> int:
    deleted = 0
    while ids := list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH]):
        _, counts = rows.filter(pk__in=ids).delete()
        deleted += counts.get(rows.model._meta.label, 0)
    return deleted
