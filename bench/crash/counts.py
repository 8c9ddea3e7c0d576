"""What is wrong in the data after all that: lost, doubled, illegal, stuck, orphaned. Each is a list of words on what was found."""

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.crash.model import ACKNOWLEDGED, TOKEN
from bench.crash.people import Accepted
from bench.crash.points import TABLE

KINDS = ("lost", "doubled", "illegal", "stuck", "orphaned")
NAMED_ENDS = {"attempts", "cancelled"}  # how a turn may end here other than done
SERIOUS = re.compile(
    r"is not a move|IntegrityError|CheckViolation|UniqueViolation|DeadlockDetected|a given answer does not"
)


@dataclass
class Found:
    """What was found, and how much there was to look at."""

    wrong: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    totals: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, words: Any) -> None:
        self.wrong[kind] += [str(word) for word in words]

    @property
    def counts(self) -> list[int]:
        return [len(self.wrong[kind]) for kind in KINDS]


def look(accepted: Accepted, unsettled: list[str], effects: Path, logs: list[Path]) -> Found:
    """All of it, on a site that has come to rest."""
    found = Found()
    found.add("stuck", unsettled)
    _texts(found, accepted)
    _calls(found, effects)
    _rows(found)
    _breaches(found)
    for log in logs:
        serious = [line for line in log.read_text(errors="replace").splitlines() if SERIOUS.search(line)]
        found.add("illegal", (f"{log.stem}: {line[:200]}" for line in serious))
    return found


def _texts(found: Found, accepted: Accepted) -> None:
    """Every token that was accepted, or that stands in a message or letter, is told once and acknowledged once."""
    from agents.models import Message
    from inbox.models import Item

    told: Counter[str] = Counter()
    acknowledged: Counter[str] = Counter()
    for sender, kind, text in Message.objects.exclude(place=None).values_list("sender", "kind", "text"):
        if sender == "agent":
            acknowledged.update(ACKNOWLEDGED.findall(text))
        elif kind != "summary":
            told.update(token for token, _ in TOKEN.findall(text))
    answers = {
        token
        for text in Item.objects.exclude(response="").values_list("response", flat=True)
        for token, _ in TOKEN.findall(text)
    }
    known = accepted.tokens | answers | set(told)
    found.add("lost", (f"{token} was never told" for token in sorted(known - set(told))))
    found.add("lost", (f"{token} was never acknowledged" for token in sorted(known - set(acknowledged))))
    found.add("doubled", (f"{token} was told {n} times" for token, n in told.items() if n > 1))
    found.add("doubled", (f"{token} was acknowledged {n} times" for token, n in acknowledged.items() if n > 1))
    stray = set(told) - accepted.tokens - accepted.perhaps - {token for token in told if token.startswith("c")}
    found.add("illegal", (f"{token} was refused and told all the same" for token in sorted(stray)))
    found.totals.update(accepted=len(accepted.tokens), letters=Item.objects.count(), messages=Message.objects.count())


def _calls(found: Found, effects: Path) -> None:
    """Effects against the journal, by the call's key."""
    from django.db import connection

    from agents.entries import Call
    from agents.models import ToolCall

    done: Counter[tuple[str, str]] = Counter()
    if effects.exists():
        for line in effects.read_text().splitlines():
            name, key, _ = line.split()
            done[name, key] += 1
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT call FROM {TABLE}")
        done.update(("atom", key) for (key,) in cursor.fetchall())
    calls = {
        (row.name, Call(row.call_id, row.name, "", id=row.pk).key): (row.status, row.result)
        for row in ToolCall.objects.filter(name__in=["plain", "idem", "atom"])
    }
    found.add("orphaned", (f"an effect of {key} {name} without a call" for name, key in sorted(set(done) - set(calls))))
    for (name, key), (status, result) in calls.items():
        times = done[name, key]
        if times > 1 and name != "idem":
            found.add("doubled", [f"{name} {key} ran {times} times"])
        if status == "done" and (not times or not result.endswith("done")):
            found.add("lost", [f"{name} {key} is done, ran {times} times, result {result!r}"])
        if status in ("pending", "aborted", "denied") and times:
            found.add("illegal", [f"{name} {key} is {status} and ran"])
        if name == "atom" and times and status != "done":
            found.add("illegal", [f"atom {key} is {status} and its row stands"])
    states = Counter(status for status, _ in calls.values())
    found.totals.update(calls=len(calls), unknown=states["unknown"])


def _rows(found: Found) -> None:
    """Rows whose owner is gone or was ended; turns that ended otherwise than by name; the ledger against the turns."""
    from django.db.models import Count, Q

    from agents.models import Message, ToolCall, Turn
    from inbox.models import ResolverRun

    open_calls = ToolCall.objects.filter(status__in=["pending", "running", "waiting"]).exclude(
        turn__status__in=["running", "queued"]
    )
    found.add("orphaned", (f"call {pk} is open in an ended turn" for pk in open_calls.values_list("pk", flat=True)))
    ownerless = Message.objects.exclude(place=None).filter(turn=None)
    found.add("orphaned", (f"message {pk} was placed by no turn" for pk in ownerless.values_list("pk", flat=True)))
    ended = Turn.objects.exclude(reason="").exclude(reason__in=NAMED_ENDS).filter(status__in=["failed", "cancelled"])
    found.add("illegal", (f"turn {t.pk}: {t.reason} {t.error[:200]}" for t in ended))
    counted = Turn.objects.annotate(rows=Count("model_call_rows", filter=Q(model_call_rows__error=""))).values_list(
        "pk", "model_calls", "rows"
    )
    found.add("illegal", (f"turn {pk} made {n} model calls, {rows} rows" for pk, n, rows in counted if n != rows))
    states = Counter(Turn.objects.values_list("status", flat=True))
    found.totals.update(turns=sum(states.values()), given_up=Turn.objects.filter(reason="attempts").count())
    found.totals["compactions"] = Message.objects.filter(kind="summary").count()
    found.totals["cron_runs"] = ResolverRun.objects.count()


def _breaches(found: Found) -> None:
    from inbox import invariants

    kinds = {
        "turn_left": "stuck",
        "item_unrung": "stuck",
        "call_of_ended": "orphaned",
        "item_origin": "orphaned",
        "item_read_once": "doubled",
    }
    for breach in invariants.breaches():
        name = breach.check.name
        kind = kinds.get(name, "lost" if name.startswith("lost") else "illegal")
        found.add(kind, (f"{name}: {row}" for row in breach.rows))
