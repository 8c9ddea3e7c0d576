"""One answer for many items, and telling a second click from a second person."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from django.db import models

from inbox import text
from inbox.errors import AlreadyClosed, ItemNotFound, NotAllowed, TooManyAtOnce
from inbox.models import Item
from inbox.services.answers import resolve_as

MAX_AT_ONCE = 200


class Kind(models.TextChoices):
    """What became of one item of many."""

    RESOLVED = "resolved", "resolved"
    NOT_YOURS = "not_yours", "not yours"
    CLOSED = "closed", "already answered"
    MISSING = "missing", "not found"


class Fate(NamedTuple):
    """One item of many: what became of it, and why."""

    item_id: int
    kind: Kind
    why: str = ""


def resolve_many(user: Any, item_ids: Iterable[int], response: str, *, via: str) -> list[Fate]:
    """Answer each of these items as this person, with the same text: its own permission, transaction and log entry each, in id
    order. The text is checked first, so a bad one changes nothing. Raises TooManyAtOnce over MAX_AT_ONCE, and the text's errors."""
    ids = sorted(set(item_ids))
    if len(ids) > MAX_AT_ONCE:
        raise TooManyAtOnce(at_most=MAX_AT_ONCE)
    text.check(response, what="response")
    return [_resolve_one(user, pk, response, via) for pk in ids]


def _resolve_one(user: Any, item_id: int, response: str, via: str) -> Fate:
    try:
        resolve_as(user, item_id, response, via=via)
    except ItemNotFound as error:
        return Fate(item_id, Kind.MISSING, str(error))
    except NotAllowed as error:
        return Fate(item_id, Kind.NOT_YOURS, str(error))
    except AlreadyClosed as error:
        if is_repeat(user, item_id, response, Item.Outcome.ANSWERED, via=via):
            return Fate(item_id, Kind.RESOLVED, "You answered it so a moment ago.")
        return Fate(item_id, Kind.CLOSED, str(error))
    return Fate(item_id, Kind.RESOLVED)


def is_repeat(user: Any, item_id: int, text: str, outcome: str, *, via: str) -> bool:
    """Whether this person has closed this item in this way with this very text: a double click, or Back and send again."""
    same = Item.objects.filter(pk=item_id, resolver=user, resolved_via=via, outcome=outcome, response=text)
    return same.exists()


def tally(fates: Iterable[Fate]) -> str:
    """`5 resolved, 3 not yours, 2 already answered`."""
    counts = Counter(fate.kind for fate in fates)
    return ", ".join(f"{counts[kind]} {kind.label}" for kind in Kind if counts[kind])
