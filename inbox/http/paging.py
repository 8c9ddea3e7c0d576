"""Lists by keyset: a page is one index look-up, whatever lies before it, and nothing is counted."""

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

from django.db.models import QuerySet
from ninja import Field, Query, Schema

from inbox.http import errors

T = TypeVar("T")
MAX_ID = 2**63 - 1
MAX_LIMIT = 200


class Page(Schema, Generic[T]):
    """One page; `next` is the cursor of the page after it, null on the last."""

    items: list[T]
    next: str | None


class PageQuery(Schema):
    """Which page of a list."""

    cursor: str | None = Field(None, max_length=200, description="`next` of the page before.")
    limit: int = Field(50, ge=1, le=MAX_LIMIT, description="How many entries at most.")


Paging = Annotated[PageQuery, Query(...)]


def newest_first(rows: QuerySet[Any], paging: PageQuery, name: str) -> dict[str, Any]:
    """A page of rows by falling id. `name` is the list's: a cursor of one list means nothing to another."""
    if paging.cursor is not None:
        (last,) = read_cursor(paging.cursor, name, 1)
        rows = rows.filter(pk__lt=last)
    return cut(list(rows.order_by("-pk")[: paging.limit + 1]), paging, lambda page: make_cursor(name, page[-1].pk))


def by_position(found: Any, paging: PageQuery, name: str) -> dict[str, Any]:
    """A page of a short list: a sequence, or a query with an order of its own."""
    start = read_cursor(paging.cursor, name, 1)[0] if paging.cursor is not None else 0
    return cut(list(found[start : start + paging.limit + 1]), paging, lambda page: make_cursor(name, start + len(page)))


def cut(found: Sequence[T], paging: PageQuery, cursor_after: Callable[[Sequence[T]], str]) -> dict[str, Any]:
    """The page out of one row more than it may hold; `cursor_after` names the place after a page."""
    page = found[: paging.limit]
    return {"items": page, "next": cursor_after(page) if len(found) > len(page) else None}


def make_cursor(name: str, *place: int) -> str:
    """An opaque text for a place in a list."""
    words = ":".join([name, *map(str, place)])
    return base64.urlsafe_b64encode(words.encode()).decode().rstrip("=")


def read_cursor(cursor: str, name: str, numbers: int) -> list[int]:
    """The place again, or BadCursor. A cursor only narrows what its reader may see, so it needs no signature; what is not
    exactly a cursor of this list is refused."""
    try:
        words = base64.urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4)).decode("ascii")
    except (binascii.Error, UnicodeError, ValueError):
        raise errors.BadCursor from None
    place = [int(number) for number in words.split(":")[1:] if re.fullmatch(r"[0-9]{1,19}", number)]
    if len(place) != numbers or max(place, default=0) > MAX_ID or make_cursor(name, *place) != cursor:
        raise errors.BadCursor
    return place
