"""Pages of items that a person may see, newest first: one look-up per page, however many items there are."""

from typing import Any

from django.db import connection
from django.db.models import Q, QuerySet

from inbox import access
from inbox.models import Item, Mailbox

MAX_MERGED = 50  # mailboxes of one owner whose pages are merged


def newest_items(user: Any, only: Q, count: int, *, tag: str | None = None) -> list[Item]:
    """At most `count` items of those that she may see and that fit `only`; with `tag`, of exactly this tag."""
    rows = Item.objects.filter(only) if tag is None else Item.objects.filter(only, tag=tag)
    if access.is_desk(user):
        if tag is None:  # by falling id, passing over what other groups answer
            return _page(access.visible_items(user).filter(only), count)
        if access.in_group(user, tag):
            return _page(rows, count)
    return _own(user, rows, count) if user.is_active else []


def _own(user: Any, rows: QuerySet[Item], count: int) -> list[Item]:
    mailboxes = list(Mailbox.objects.filter(owner=user).values_list("pk", flat=True)[: MAX_MERGED + 1])
    if len(mailboxes) > MAX_MERGED:
        return _page(rows.filter(mailbox__owner=user), count)
    if len(mailboxes) > 1 and connection.features.supports_slicing_ordering_in_compound:
        return _page(Item.objects.filter(pk__in=_merged(rows, mailboxes, count)), count)
    return _page(rows.filter(mailbox__in=mailboxes), count)


def _page(rows: QuerySet[Item], count: int) -> list[Item]:
    return list(rows.select_related("mailbox").order_by("-pk")[:count])


def _merged(rows: QuerySet[Item], mailboxes: list[int], count: int) -> list[int]:
    """The newest of each mailbox by its own index, of which the newest of all are the page. Asked as one, the database would
    read all of them, or all items of the table, and sort."""
    first, *rest = (
        rows.filter(mailbox=mailbox).order_by("-pk").values_list("pk", flat=True)[:count] for mailbox in mailboxes
    )
    return list(first.union(*rest, all=True).order_by("-id")[:count])
