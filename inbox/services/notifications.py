"""Telling staff of a new request. The row is history and outbox in one; a failing notifier never touches the item."""

import logging
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import F, Q

from inbox import access, bell, tags, text
from inbox.clock import clock, now
from inbox.models import Item, Notification, TagGroup
from inbox.notifiers import get_notifier
from inbox.notifiers.base import TransportError

log = logging.getLogger(__name__)

TASK = "inbox.notify"
LEASE_S = 120  # a sender that is silent for so long is taken for dead
MAX_ATTEMPTS = 6
FIRST_WAIT_S = 30  # four times as long after each attempt: six attempts take some three hours
ERROR_BYTES = 2000

Status = Notification.Status


def queue(item: Item) -> None:
    """In the transaction that posts the item: one notification per notifier that tells somebody, if its tag has a group."""
    names = [alias for alias in settings.INBOX_NOTIFIERS if _sends(alias)]
    if not names or not access.tag_has_group(item.tag):
        return
    rows = [Notification(item=item, notifier=name, not_before=clock()) for name in names]
    for row in Notification.objects.bulk_create(rows):
        transaction.on_commit(partial(bell.ring, TASK, (row.pk,)), robust=True)


def deliver(notification_id: int) -> str:
    """Send one notification; returns its status then, or `missed` where it is not due or somebody else has it.

    1. Claim: queued and due, or sending with a lapsed lease, by one conditional UPDATE.
    2. Skip it where the item has been closed meanwhile.
    3. Send, with no transaction open.
    4. Record: sent; failed for good; or queued again, four times as late as before.
    """
    claimed = _due().filter(pk=notification_id)
    if not claimed.update(status=Status.SENDING, attempts=F("attempts") + 1, not_before=clock(LEASE_S)):
        return "missed"
    row = Notification.objects.select_related("item__mailbox").get(pk=notification_id)
    if row.item.status != Item.Status.PENDING:
        return _record(row, Status.SKIPPED, error="Not sent: the request was closed first.")
    if row.attempts > MAX_ATTEMPTS:
        return _record(row, Status.FAILED, error="Given up: its sender died in every attempt.")
    recipients = recipients_of(row.item.tag)
    if not recipients:
        return _record(row, Status.FAILED, error="Nobody in the tag's groups may answer and has an email address.")
    try:
        get_notifier(row.notifier).send(row.item, recipients)
    except Exception as error:
        return _put_off(row, error, recipients)
    return _record(row, Status.SENT, recipients=", ".join(recipients), sent_at=clock())


def deliver_due(limit: int = 20) -> int:
    """The sweep's part: send what no doorbell has caused to be sent. Returns how many it took."""
    ids = list(_due().order_by("not_before").values_list("pk", flat=True)[:limit])
    return sum(deliver(pk) != "missed" for pk in ids)


def recipients_of(tag: str) -> list[str]:
    """The addresses of those who answer this tag: active members of its groups who may resolve items."""
    rows = TagGroup.objects.values_list("pattern", "groups")
    groups = {group for pattern, group in rows if group is not None and tags.matches(pattern, tag)}
    model: Any = get_user_model()
    members = model.objects.filter(is_active=True, groups__in=groups)
    found = {
        str(getattr(user, model.get_email_field_name()) or "").strip()
        for user in members.distinct()
        if user.has_perm("inbox.resolve_item")
    }
    return sorted(found - {""})


def _sends(alias: str) -> bool:
    """A notifier that cannot be made gets its row, on which the failure shows; the post goes on."""
    try:
        return get_notifier(alias).sends
    except Exception:
        log.exception("The notifier %r cannot be used.", alias)
        return True


def _due() -> Any:
    return Notification.objects.filter(Q(status=Status.QUEUED) | Q(status=Status.SENDING), not_before__lte=now())


def _put_off(row: Notification, error: Exception, recipients: list[str]) -> str:
    told = f"{error}" if isinstance(error, TransportError) else f"{type(error).__name__}: {error}"
    permanent = isinstance(error, TransportError) and error.permanent
    last = permanent or row.attempts >= MAX_ATTEMPTS
    log.warning("Notification %s by %s failed, attempt %s: %s", row.pk, row.notifier, row.attempts, told)
    return _record(
        row,
        Status.FAILED if last else Status.QUEUED,
        error=text.clean(told, limit=ERROR_BYTES),
        recipients=", ".join(recipients),
        not_before=clock(FIRST_WAIT_S * 4 ** (row.attempts - 1)),
    )


def _record(row: Notification, status: str, **columns: Any) -> str:
    """End the attempt, unless its lease lapsed and another has begun."""
    mine = Notification.objects.filter(pk=row.pk, status=Status.SENDING, attempts=row.attempts)
    return status if mine.update(status=status, **{"error": "", **columns}) else "missed"
