"""How mail wakes its reader and how a turn reads it: plain SQL that both databases take, since every turn runs it."""

import datetime
from collections.abc import Iterable
from typing import Any, NamedTuple

from django.db import connection

from inbox.services import statements

MAX_ITEMS = 50
MAX_BYTES = 100_000
# What a reader reads, and waits for: of a mailbox, with an origin.
RESOLVED = "FROM inbox_item WHERE mailbox_id = %s AND status = 'resolved' AND (origin = %s OR origin IS NULL)"
PENDING = "FROM inbox_item WHERE mailbox_id = %s AND status = 'pending' AND (origin = %s OR origin IS NULL)"


class Mail(NamedTuple):
    """A resolved item as its reader needs it. Times are aware, in UTC."""

    id: int
    tag: str
    request: str
    response: str
    outcome: str
    asked: bool
    resolved_by: str
    resolved_via: str
    resolved_at: datetime.datetime
    due_at: datetime.datetime | None


class OpenRequest(NamedTuple):
    """A pending item of a reader."""

    id: int
    tag: str
    blocking: bool
    request: str


def unrung(mailbox_id: int, limit: int) -> list[tuple[int, int | None, str]]:
    """The mailbox's answered items whose wake has not happened: (id, origin, the agent that reads them), oldest first."""
    return statements.rows(
        "SELECT i.id, i.origin, m.agent FROM inbox_item i JOIN inbox_mailbox m ON m.id = i.mailbox_id"
        f" WHERE i.mailbox_id = %s AND i.status = 'resolved' AND NOT i.rung ORDER BY i.id LIMIT {limit}",
        [mailbox_id],
    )


def mark_rung(ids: list[int], reader: int) -> int:
    """Record that the wake of these items reached this reader; returns how many were still waiting for it."""
    marks = ", ".join(["%s"] * len(ids))
    waiting = f"id IN ({marks}) AND status = 'resolved' AND NOT rung AND (origin = %s OR origin IS NULL)"
    if len(ids) > 1 and connection.vendor != "sqlite":  # locked in id order, as everywhere
        waiting = f"id IN (SELECT id FROM inbox_item WHERE {waiting} ORDER BY id FOR NO KEY UPDATE)"
    return statements.run(f"UPDATE inbox_item SET rung = true WHERE {waiting}", [*ids, reader])


def take(mailbox_id: int, reader: int, run: int) -> tuple[list[Mail], bool]:
    """Lock and consume what this reader reads, in the caller's transaction: the mail that it asked for, and the mailbox's mail
    that no open place asked for. At most MAX_ITEMS or MAX_BYTES; the second value says whether some is left. Sorted by when
    it was resolved. `run` is kept as the one that consumed it."""
    lock = "" if connection.vendor == "sqlite" else "FOR NO KEY UPDATE"
    resolved = statements.rows(
        "SELECT id, tag, request, response, outcome, asked, resolved_by, resolved_via, resolved_at, due_at"
        f" {RESOLVED} ORDER BY id LIMIT {MAX_ITEMS + 1} {lock}",
        [mailbox_id, reader],
    )
    found = [_mail(row) for row in resolved]
    taken = found[: how_many(len(mail.request.encode()) + len(mail.response.encode()) for mail in found)]
    if taken:
        consume([mail.id for mail in taken], run)
    return sorted(taken, key=lambda mail: (mail.resolved_at, mail.id)), len(taken) < len(found)


def how_many(sizes: Iterable[int]) -> int:
    """How many of these, by their bytes, enter a history at once: at most MAX_ITEMS or MAX_BYTES. The first goes in whatever its
    size, or it would never be read."""
    taken = total = 0
    for size in sizes:
        total += size
        if taken == MAX_ITEMS or (taken and total > MAX_BYTES):
            break
        taken += 1
    return taken


def consume(ids: list[int], run: int | None) -> int:
    """resolved -> consumed, in one statement however many; returns how many moved."""
    marks = ", ".join(["%s"] * len(ids))
    return statements.run(
        "UPDATE inbox_item SET status = 'consumed', rung = true, consumed_at = glove_clock(0), consumed_in = %s"
        f" WHERE status = 'resolved' AND id IN ({marks})",
        [run, *ids],
    )


def open_requests(mailbox_id: int, reader: int, *, blocking_only: bool = False) -> list[OpenRequest]:
    """The pending items whose answers this reader will read, oldest first."""
    only = "AND blocking" if blocking_only else ""
    found = statements.rows(f"SELECT id, tag, blocking, request {PENDING} {only} ORDER BY id", [mailbox_id, reader])
    return [OpenRequest(pk, tag, bool(blocking), request) for pk, tag, blocking, request in found]


def _mail(row: Any) -> Mail:
    *head, resolved_at, due_at = row
    pk, tag, request, response, outcome, asked, by, via = head
    return Mail(
        pk, tag, request, response, outcome, bool(asked), by, via, _aware(resolved_at), due_at and _aware(due_at)
    )


def _aware(value: Any) -> datetime.datetime:
    """SQLite hands times out as text."""
    if isinstance(value, str):
        return datetime.datetime.fromisoformat(value).replace(tzinfo=datetime.UTC)
    return value
