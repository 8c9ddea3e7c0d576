"""Prometheus text. Each number is a look into an index that holds only what is open, or into a bounded number of rows:
a table with millions of rows costs the same as an empty one."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db.models import Count, DurationField, ExpressionWrapper, F, Max, Min, QuerySet

from agents.models import Turn
from inbox import sweep
from inbox.clock import clock, now
from inbox.models import Item, Notification

MOST = 100_000  # counting stops here
RECENT = 1000  # turns

Labels = dict[str, str]
Sample = tuple[Labels, float]


def metric(name: str, kind: str, meaning: str, samples: Iterable[Sample]) -> str:
    """One metric in Prometheus' text format."""
    lines = [f"# HELP glove_{name} {meaning}", f"# TYPE glove_{name} {kind}"]
    for labels, value in samples:
        inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        number = int(value) if value == int(value) else round(value, 6)
        lines.append(f"glove_{name}{'{' + inside + '}' if inside else ''} {number}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def of_database() -> str:
    """What the rows say."""
    return "".join([*_items(), *_turns(), *_sweep()])


def of_process(*, database: bool, broker: bool) -> str:
    """What this process knows by itself; with several web processes each counts its own bells."""
    from agents import bell

    rung, failed = bell.counts()
    return "".join(
        [
            metric("database_up", "gauge", "Whether the database answers.", [({}, database)]),
            metric("broker_up", "gauge", "Whether the broker answers.", [({}, broker)]),
            metric(
                "bells_total",
                "counter",
                "Doorbells of this process, by whether the broker took them.",
                [({"outcome": "rung"}, rung), ({"outcome": "failed"}, failed)],
            ),
        ]
    )


def _items() -> list[str]:
    status = Item.Status
    pending, resolved = Item.objects.filter(status=status.PENDING), Item.objects.filter(status=status.RESOLVED)
    unsent = Notification.objects.filter(status__in=["queued", "sending"])
    counts = [
        ({"status": status.PENDING.value}, _count(pending)),
        ({"status": status.RESOLVED.value}, _count(resolved)),
    ]
    newest = Item.objects.aggregate(n=Max("pk"))["n"] or 0
    return [
        metric("items", "gauge", f"Items that are not read yet. Counting stops at {MOST}.", counts),
        metric(
            "items_overdue",
            "gauge",
            "Pending items past their deadline.",
            [({}, _count(pending.filter(due_at__lte=now())))],
        ),
        metric(
            "items_unrung",
            "gauge",
            "Resolved items whose wake has not happened.",
            [({}, _count(resolved.filter(rung=False)))],
        ),
        metric(
            "items_newest_id",
            "counter",
            "The id of the newest item: how many there have been, gaps included.",
            [({}, newest)],
        ),
        metric("notifications_unsent", "gauge", "Notices to staff that are not sent yet.", [({}, _count(unsent))]),
    ]


def _turns() -> list[str]:
    status = Turn.Status
    open_ones = Turn.objects.filter(status__in=[status.QUEUED, status.RUNNING, status.WAITING])
    counts = dict.fromkeys((status.QUEUED, status.RUNNING, status.WAITING), 0)
    counts |= dict(open_ones.order_by().values_list("status").annotate(n=Count("pk")))
    age = ExpressionWrapper(clock() - F("first"), output_field=DurationField())
    due = Turn.objects.filter(status=status.QUEUED, not_before__lte=now())
    oldest = due.aggregate(first=Min("not_before"), age=age)["age"]
    lapsed = Turn.objects.filter(status=status.RUNNING, lease_until__lt=now())
    recent = Turn.objects.order_by("-pk").values("status")[:RECENT]
    ends: dict[Any, int] = dict.fromkeys((status.DONE, status.FAILED, status.CANCELLED), 0)
    for row in recent:
        if row["status"] in ends:
            ends[row["status"]] += 1
    newest = Turn.objects.aggregate(n=Max("pk"))["n"] or 0
    return [
        metric("turns", "gauge", "Open turns.", _by_status(counts)),
        metric("turns_recent", "gauge", f"How the newest {RECENT} turns ended.", _by_status(ends)),
        metric(
            "turns_newest_id",
            "counter",
            "The id of the newest turn: how many there have been, gaps included.",
            [({}, newest)],
        ),
        metric(
            "turn_oldest_due_seconds", "gauge", "How long the oldest due turn has waited.", [({}, _seconds(oldest))]
        ),
        metric("turn_leases_lapsed", "gauge", "Running turns whose worker was lost.", [({}, lapsed.count())]),
    ]


def _sweep() -> list[str]:
    age = sweep.age_s()
    return [metric("sweep_age_seconds", "gauge", "Since a sweep last began.", [({}, age)])] if age is not None else []


def _by_status(counts: dict[Any, int]) -> list[Sample]:
    return [({"status": str(status)}, number) for status, number in counts.items()]


def _count(rows: QuerySet[Any]) -> int:
    return rows.order_by()[:MOST].count()


def _seconds(age: timedelta | None) -> float:
    return age.total_seconds() if age is not None else 0.0
