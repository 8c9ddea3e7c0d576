"""Mail that nobody asked for: born resolved, for one mailbox or for many."""

from collections.abc import Sequence
from typing import Any

from django.db import connection, transaction

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


def drop_to_all(
    mailboxes: tuple[str, Sequence[Any]], *, tag: str, request: str, response: str, by: str, via: str
) -> list[tuple[int, int]]:
    """The same letter for many, in one statement: born resolved, with a reserved tag. `mailboxes` is SQL, with its values, that
    gives pairs of a mailbox's id and its agent: mail of a mailbox that no agent reads does not wake. In the caller's
    transaction. Returns the pairs of item and mailbox ids."""
    tags.check_tag(tag, reserved=True)
    text.check(request, what="request")
    text.check(response, what="response")
    chosen, values = mailboxes
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH r(mailbox_id, agent) AS ({chosen}) INSERT INTO inbox_item (mailbox_id, tag, request, response, status,"
            " outcome, blocking, asked, wakes, rung, created_at, resolved_at, resolved_by, resolved_via)"
            " SELECT r.mailbox_id, %s, %s, %s, 'resolved', 'answered', false, false, r.agent <> '', r.agent = '',"
            " glove_clock(0), glove_clock(0), %s, %s FROM r RETURNING id, mailbox_id",
            [*values, tag, request, response, by[:200], via],
        )
        made = cursor.fetchall()
    items.announce(mailbox for _, mailbox in made)
    return made
