"""The promises, looked for in the data. A check says what is true of every row; its query finds the rows where it is not.

`manage.py check_invariants` runs the checks of every installed app that has a module `invariants` with a list `CHECKS`.
The queries are of the kind that both databases take; they read whole tables, so they are for operators and tests.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import connection
from django.utils.module_loading import module_has_submodule

SHOWN = 10  # rows that a breach names


@dataclass(frozen=True)
class Check:
    """One promise. `look` yields a few words on each row that breaks it."""

    name: str
    promise: str
    look: Callable[[], Iterable[str]]


@dataclass(frozen=True)
class Breach:
    """A promise that does not hold, with the first rows that show it."""

    check: Check
    rows: list[str]


def checks() -> list[Check]:
    """The checks of all installed apps."""
    found: list[Check] = []
    for config in apps.get_app_configs():
        if config.module and module_has_submodule(config.module, "invariants"):
            found += import_module(f"{config.name}.invariants").CHECKS
    return found


def breaches(among: Iterable[Check] | None = None) -> list[Breach]:
    """The promises that do not hold now."""
    looked = ((check, list(islice(check.look(), SHOWN))) for check in (checks() if among is None else among))
    return [Breach(check, rows) for check, rows in looked if rows]


def query(sql: str, **values: Callable[[], Any]) -> Callable[[], Iterator[str]]:
    """A look by SQL: each row it selects is a breach. `values` are asked when it runs, for settings that tests change."""

    def look() -> Iterator[str]:
        with connection.cursor() as cursor:
            cursor.execute(f"{sql} LIMIT {SHOWN}", {name: value() for name, value in values.items()})
            names = [column[0] for column in cursor.description]
            for row in cursor.fetchall():
                yield ", ".join(f"{name} {value}" for name, value in zip(names, row, strict=True))

    return look


def swept_s() -> float:
    """By when a sweep has found something for certain: passes may be slow, and one may have died."""
    return float(4 * settings.SWEEP_EVERY_S)


PENDING = (
    "(status = 'pending' AND outcome = '' AND response = '' AND resolved_via = '' AND resolved_at IS NULL"
    " AND consumed_at IS NULL)"
)
RESOLVED = (
    "(status = 'resolved' AND outcome IN ('answered', 'expired', 'cancelled', 'undeliverable') AND resolved_via <> ''"
    " AND resolved_at IS NOT NULL AND consumed_at IS NULL)"
)
CONSUMED = (
    "(status = 'consumed' AND outcome IN ('answered', 'expired', 'cancelled', 'undeliverable', 'withdrawn')"
    " AND resolved_at IS NOT NULL AND consumed_at IS NOT NULL)"
)

CHECKS = [
    Check(
        "item_shape",
        "An item is pending without an answer, resolved with one, or consumed.",
        query(f"SELECT id AS item, status, outcome FROM inbox_item WHERE NOT ({PENDING} OR {RESOLVED} OR {CONSUMED})"),
    ),
    Check(
        "item_order",
        "An item is read after it was resolved.",
        query(
            "SELECT id AS item, resolved_at, consumed_at FROM inbox_item"
            " WHERE consumed_at < resolved_at AND outcome <> 'withdrawn'"
        ),
    ),
    Check(
        "item_quiet",
        "Mail that does not wake counts as rung.",
        query("SELECT id AS item FROM inbox_item WHERE NOT wakes AND NOT rung"),
    ),
    Check(
        "item_expiry",
        "An item past its deadline is closed by a sweep.",
        query(
            "SELECT id AS item, due_at FROM inbox_item WHERE status = 'pending' AND due_at < glove_clock(-%(late)s)",
            late=swept_s,
        ),
    ),
    Check(
        "mailbox_limit",
        "A mailbox has at most INBOX_MAX_OPEN_ITEMS pending items.",
        query(
            "SELECT mailbox_id AS mailbox, COUNT(*) AS pending FROM inbox_item WHERE status = 'pending'"
            " GROUP BY mailbox_id HAVING COUNT(*) > %(most)s",
            most=lambda: settings.INBOX_MAX_OPEN_ITEMS,
        ),
    ),
    Check(
        "address_once",
        "An address names one mailbox, whatever the case of its letters.",
        query(
            "SELECT LOWER(address) AS address, COUNT(*) AS mailboxes FROM inbox_mailbox"
            " GROUP BY LOWER(address) HAVING COUNT(*) > 1"
        ),
    ),
    Check(
        "notification_shape",
        "A notification says when it was sent, and only then.",
        query(
            "SELECT id AS notification, status FROM inbox_notification WHERE (status = 'sent') <> (sent_at IS NOT NULL)"
        ),
    ),
    Check(
        "notification_due",
        "A notification that is due is sent or given up by a sweep.",
        query(
            "SELECT id AS notification, not_before FROM inbox_notification WHERE status = 'queued'"
            " AND not_before < glove_clock(-%(late)s)",
            late=lambda: 10 * swept_s(),
        ),
    ),
    Check(
        "early_answer_once",
        "An early answer that was taken says by which item and when; an item takes one at most.",
        query(
            "SELECT MIN(id) AS early_answer, taken_by_id AS item, COUNT(*) AS answers FROM inbox_earlyanswer"
            " WHERE taken_by_id IS NOT NULL GROUP BY taken_by_id HAVING COUNT(*) > 1 OR MAX(taken_at) IS NULL"
        ),
    ),
]
