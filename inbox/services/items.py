"""The moves of an item. Each is one transaction around one conditional update; its count says who won."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q

from inbox import tags, text
from inbox.clock import clock, now
from inbox.errors import AlreadyClosed, BadDeadline, ItemNotFound, TooManyOpenItems
from inbox.models import EarlyAnswer, Item, Mailbox
from inbox.services import notifications
from inbox.signals import closing, mailbox_ready, many_ready

MAX_DUE_S = 366 * 24 * 3600
MAX_ANNOUNCED = 20
EXPIRED_TEXT = "Nobody answered in time."

Status, Outcome, Via = Item.Status, Item.Outcome, Item.Via


def post(
    mailbox_id: int,
    *,
    tag: str,
    request: str,
    blocking: bool = False,
    due_in_s: float | None = None,
    origin: int | None = None,
    posted_in: int | None = None,
    wakes: bool = True,
    reserved: bool = False,
) -> Item:
    """A pending request, or the identical one that its poster has open already.

    1. Lock the mailbox, so that two posters count one after the other.
    2. Join an identical open request of the same origin.
    3. Refuse over the limit of open items: TooManyOpenItems.
    4. Insert it; take an answer that came before it; else queue its notifications.

    `due_in_s` is the deadline in seconds from now; with `wakes` false its answer waits for the mailbox's next turn; `reserved`
    allows the system's own tags. Also raises BadTag, BadDeadline and the errors of `inbox.text.check`.
    """
    tags.check_tag(tag, reserved=reserved)
    text.check(request, what="request")
    if due_in_s is not None and not 1 <= due_in_s <= MAX_DUE_S:
        raise BadDeadline
    with transaction.atomic():
        if not Mailbox.objects.select_for_update(no_key=True).filter(pk=mailbox_id).exists():
            raise ItemNotFound("There is no such mailbox.")
        pending = Item.objects.filter(mailbox_id=mailbox_id, status=Status.PENDING)
        if same := pending.filter(tag=tag, request=request, origin=origin).first():
            return _join(same, blocking, due_in_s)
        if pending.count() >= settings.INBOX_MAX_OPEN_ITEMS:
            raise TooManyOpenItems(open=settings.INBOX_MAX_OPEN_ITEMS)
        _lock_tag(tag)
        item = Item.objects.create(
            mailbox_id=mailbox_id,
            tag=tag,
            request=request,
            blocking=blocking,
            origin=origin,
            posted_in=posted_in,
            wakes=wakes,
            rung=not wakes,
            due_at=None if due_in_s is None else clock(due_in_s),
        )
        if not _take_early_answer(item):
            notifications.queue(item)
        item.refresh_from_db()
    return item


def _join(same: Item, blocking: bool, due_in_s: float | None) -> Item:
    """Asked again while it is open: it is one request still, but what was said now about waiting for it counts."""
    asked = Item.objects.filter(pk=same.pk, status=Status.PENDING)
    if blocking and not same.blocking:
        asked.update(blocking=True)
    if due_in_s is not None and same.due_at is None:
        asked.update(due_at=clock(due_in_s))
    same.refresh_from_db()
    return same


def resolve(item_id: int, response: str, *, by: str, via: str, user: Any = None) -> Item:
    """Answer a pending item. N may race: one wins, the others get AlreadyClosed, which keeps their text. Also ItemNotFound."""
    text.check(response, what="response")
    return _close(item_id, Outcome.ANSWERED, response, by=by, via=via, user=user)


def cancel(item_id: int, reason: str, *, by: str, via: str, user: Any = None) -> Item:
    """Close a pending item without an answer; the agent reads the reason."""
    text.check(reason, what="reason")
    return _close(item_id, Outcome.CANCELLED, reason, by=by, via=via, user=user)


def undeliverable(item_id: int, reason: str) -> Item:
    """Close a pending item whose answerer is gone."""
    return _close(item_id, Outcome.UNDELIVERABLE, reason, by="the system", via=Via.SYSTEM)


def undeliverable_all(reasons: Mapping[int, str]) -> int:
    """The same for many at once, each with its reason; those that are closed already stay as they are. Returns how many it closed,
    in a number of statements that grows with the different reasons alone."""
    with transaction.atomic():
        rows = Item.objects.select_for_update(no_key=True).filter(pk__in=list(reasons), status=Status.PENDING)
        locked = list(rows.order_by("pk").values_list("pk", "mailbox_id", "tag"))
        for reason in dict.fromkeys(reasons[pk] for pk, *_ in locked):
            same = [pk for pk, *_ in locked if reasons[pk] == reason]
            Item.objects.filter(pk__in=same, status=Status.PENDING).update(
                status=Status.RESOLVED,
                outcome=Outcome.UNDELIVERABLE,
                response=reason,
                resolved_at=clock(),
                resolved_by="the system",
                resolved_via=Via.SYSTEM,
            )
        _closed(locked, Via.SYSTEM)
    return len(locked)


def withdraw(item_id: int, *, mailbox_id: int, reason: str = "", consumed_in: int | None = None) -> Item:
    """The agent takes its own pending request back: pending -> consumed at once, since there is nothing to read."""
    with transaction.atomic():
        moved = Item.objects.filter(pk=item_id, mailbox_id=mailbox_id, status=Status.PENDING).update(
            status=Status.CONSUMED,
            outcome=Outcome.WITHDRAWN,
            response=text.clean(reason, limit=text.MAX_BYTES),
            rung=True,
            resolved_at=clock(),
            resolved_by="its agent",
            resolved_via=Via.SYSTEM,
            consumed_at=clock(),
            consumed_in=consumed_in,
        )
        if not moved:
            refuse(item_id, "", mailbox_id=mailbox_id)
        item = Item.objects.get(pk=item_id)
        closing.send(Item, closed=[(item.pk, item.tag)], via=Via.SYSTEM)
    return item


def resolve_tag(tag: str, response: str, *, by: str, via: str) -> list[int]:
    """Answer every pending item with exactly this tag; returns their ids. With none, the answer is kept for the first
    request with the tag within INBOX_EARLY_ANSWER_S."""
    tags.check_tag(tag, reserved=True)
    text.check(response, what="response")
    with transaction.atomic():
        _lock_tag(tag)
        ids = list(Item.objects.filter(tag=tag, status=Status.PENDING).order_by("pk").values_list("pk", flat=True))
        closed = []
        for pk in ids:  # in id order, as every service that touches several items
            try:
                closed.append(_close(pk, Outcome.ANSWERED, response, by=by, via=via).pk)
            except AlreadyClosed:  # somebody answered it meanwhile; the others still count
                continue
        if not ids:
            EarlyAnswer.objects.create(tag=tag, response=response, resolved_by=by, resolved_via=via)
    return closed


def expire_due(limit: int = 200) -> int:
    """Close pending items that are past their deadline by the database's clock; returns how many."""
    with transaction.atomic():
        due = Item.objects.filter(status=Status.PENDING, due_at__lte=now()).order_by("due_at")
        ids = sorted(due.values_list("pk", flat=True)[:limit])
        if not ids:
            return 0
        rows = Item.objects.select_for_update(
            no_key=True, skip_locked=connection.features.has_select_for_update_skip_locked
        )
        rows = rows.filter(pk__in=ids, status=Status.PENDING).order_by("pk")
        locked = list(rows.values_list("pk", "mailbox_id", "tag"))
        moved = Item.objects.filter(pk__in=[pk for pk, *_ in locked], status=Status.PENDING).update(
            status=Status.RESOLVED,
            outcome=Outcome.EXPIRED,
            response=EXPIRED_TEXT,
            resolved_at=clock(),
            resolved_by="deadline",
            resolved_via=Via.DEADLINE,
        )
        _closed(locked, Via.DEADLINE)
    return moved


def release(origin: int, mailbox_id: int) -> int:
    """Forget who posted: items of this origin belong to their mailbox's next reader. Unread answers are to be rung again, also
    those of nobody's that may have rung for this reader. Returns how many there are."""
    unread = Q(status=Status.RESOLVED, wakes=True)
    rows = Item.objects.select_for_update(no_key=True).filter(
        Q(origin=origin) | (unread & Q(origin=None)), mailbox_id=mailbox_id
    )
    ids = list(rows.exclude(status=Status.CONSUMED).order_by("pk").values_list("pk", flat=True))
    Item.objects.filter(pk__in=ids, origin=origin).update(origin=None)
    return Item.objects.filter(unread, pk__in=ids).update(rung=False)


def announce(mailbox_ids: Iterable[int]) -> None:
    """Tell whoever reads these mailboxes, once the answer is committed. Many at once are left to a worker: the caller has not
    got the time to wake a thousand readers."""
    mailboxes = sorted(set(mailbox_ids))
    if len(mailboxes) > MAX_ANNOUNCED:
        transaction.on_commit(lambda: many_ready.send_robust(Item), robust=True)
        return
    for mailbox_id in mailboxes:
        transaction.on_commit(partial(mailbox_ready.send_robust, Item, mailbox_id=mailbox_id), robust=True)


def _close(item_id: int, outcome: str, response: str, *, by: str, via: str, user: Any = None) -> Item:
    with transaction.atomic():
        moved = Item.objects.filter(pk=item_id, status=Status.PENDING).update(
            status=Status.RESOLVED,
            outcome=outcome,
            response=response,
            resolved_at=clock(),
            resolved_by=by[:200],
            resolver=user,
            resolved_via=via,
        )
        if not moved:
            refuse(item_id, response)
        item = Item.objects.select_related("mailbox").get(pk=item_id)
        _closed([(item.pk, item.mailbox_id, item.tag)], via)
    return item


def _closed(rows: Sequence[tuple[int, int, str]], via: str) -> None:
    """Tell who has to write more with it, now, and who reads these mailboxes, after the commit. Rows of id, mailbox, tag."""
    closing.send(Item, closed=[(pk, tag) for pk, _, tag in rows], via=via)
    announce({mailbox for _, mailbox, _ in rows})


def refuse(item_id: int, refused: str, *, mailbox_id: int | None = None) -> NoReturn:
    """Say why an item could not be closed: ItemNotFound, or AlreadyClosed with who and when and the refused text."""
    items = Item.objects.filter(pk=item_id)
    item = (items if mailbox_id is None else items.filter(mailbox_id=mailbox_id)).first()
    if item is None or item.resolved_at is None:
        raise ItemNotFound
    raise AlreadyClosed(
        f"Already {item.outcome} by {item.resolved_by} at {item.resolved_at:%Y-%m-%d %H:%M:%S} UTC. Nothing was changed.",
        by=item.resolved_by,
        at=item.resolved_at.isoformat(),
        via=item.resolved_via,
        outcome=item.outcome,
        text=refused,
    )


def _lock_tag(tag: str) -> None:
    """A request and the answer that comes before it look for each other: one after the other, or they would miss. SQLite's
    transactions are one after the other anyway."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [tag])


def _take_early_answer(item: Item) -> bool:
    fresh = EarlyAnswer.objects.filter(tag=item.tag, taken_at=None, created_at__gte=now(-settings.INBOX_EARLY_ANSWER_S))
    answer = fresh.order_by("pk").first()
    if answer is None:
        return False
    if not EarlyAnswer.objects.filter(pk=answer.pk, taken_at=None).update(taken_by=item, taken_at=clock()):
        return False
    _close(item.pk, Outcome.ANSWERED, answer.response, by=answer.resolved_by, via=answer.resolved_via)
    return True
