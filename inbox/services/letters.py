"""Mail that nobody asked for: born resolved, for one mailbox or for many."""

from collections.abc import Sequence
from typing import Any

from django.db import transaction

from inbox import tags, text
from inbox.clock import clock
from inbox.models import Item
from inbox.services import items


def drop(
    mailbox_id: int,
    *,
    tag: str,
    request: str,
    response: str,
    by: str,
    via: str,
    user: Any = None,
    wakes: bool = True,
    origin: int | None = None,
    reserved: bool = False,
) -> Item:
    """Mail that nobody asked for: born resolved. With `wakes` false it waits for the mailbox's next turn."""
    tags.check_tag(tag, reserved=reserved)
    text.check(request, what="request")
    text.check(response, what="response")
    with transaction.atomic():
        item = Item.objects.create(
            mailbox_id=mailbox_id,
            tag=tag,
            request=request,
            response=response,
            status=Item.Status.RESOLVED,
            outcome=Item.Outcome.ANSWERED,
            asked=False,
            wakes=wakes,
            rung=not wakes,
            origin=origin,
            resolved_at=clock(),
            resolved_by=by,
            resolver=user,
            resolved_via=via,
        )
        item.refresh_from_db()
        if wakes:
            items.announce([mailbox_id])
    return item


def to_all(
    recipients: tuple[str, Sequence[Any]], *, tag: str, response: str, by: str, via: str
) -> tuple[str, list[Any]]:
    """SQL, with its values, that drops the same letter into many mailboxes in one statement, or in a part of a larger one: born
    resolved, with a reserved tag. `recipients` is SQL, with its values, that gives a row for each: mailbox_id, agent, request.
    Mail of a mailbox that no agent reads does not wake. Returns rows of id, mailbox_id, wakes; the caller announces those that
    wake. Raises BadTag, and the errors of text.check for the response."""
    tags.check_tag(tag, reserved=True)
    text.check(response, what="response")
    sql = (
        "INSERT INTO inbox_item (mailbox_id, tag, request, response, status, outcome, blocking, asked, wakes, rung, created_at,"
        " resolved_at, resolved_by, resolved_via) SELECT r.mailbox_id, %s, r.request, %s, 'resolved', 'answered', false, false,"
        f" r.agent <> '', r.agent = '', glove_clock(0), glove_clock(0), %s, %s FROM ({recipients[0]}) r"
        " RETURNING id, mailbox_id, wakes"
    )
    return sql, [tag, response, by[:200], via, *recipients[1]]
