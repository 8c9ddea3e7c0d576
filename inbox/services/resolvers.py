"""Running resolvers: once per instant of their schedule, whoever ticks and however often.

A tick only says "look now". The run is for the latest instant up to now by the database's clock, and its row, which is
unique by name and instant, is the claim. So two beats make one run, a restart makes none of its own, and after a long pause
there is one catch-up.
"""

import datetime
import logging
import threading
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.db import (
    IntegrityError,
    InterfaceError,
    InternalError,
    OperationalError,
    connection,
    connections,
    transaction,
)
from django.db.models import Max

from inbox import access, bell, declare, tags, text
from inbox.clock import clock
from inbox.errors import AlreadyClosed, ItemNotFound, UnknownResolver
from inbox.models import Item, ResolverRun
from inbox.services import items, schedules

log = logging.getLogger(__name__)

BATCH = 100
ERROR_BYTES = 4000
INFRASTRUCTURE = (OperationalError, InternalError, InterfaceError)

_running: set[str] = set()  # in this process: a slow function does not pile up in its threads
_lock = threading.Lock()


def run_resolver(name: str) -> ResolverRun | None:
    """Ask this resolver about every pending item that fits, if it is due. None where there is nothing to do: no instant since
    the last run, another has it, it still runs here, or its schedule is paused or deleted. Raises UnknownResolver.

    1. The latest instant of its schedule by the database's clock.
    2. Claim it: one row per name and instant.
    3. Each pending item in id order, with no transaction open while the function runs. None: not yet. Text: the answer.
       What one item's call raises is kept and does not stop the others.
    4. Write down how it went.
    """
    resolver = declare.resolvers.get(name)
    if resolver is None:
        raise UnknownResolver(f"No resolver named {name!r} is declared.")
    with _lock:
        if name in _running:
            return None
        _running.add(name)
    try:
        run = _claim(schedules.plan_of(name), database_time())
        return _carry_out(run, resolver) if run else None
    finally:
        with _lock:
            _running.discard(name)


def run_missed() -> int:
    """The sweep's part: instants whose tick was lost, or that beat did not make, RING_AGAIN_S ago.

    Rings a worker; where the broker does not answer, the resolver runs in a thread of its own, since nobody knows for how long.
    """
    now = database_time()
    due = now - datetime.timedelta(seconds=settings.RING_AGAIN_S)
    missed = []
    for plan in schedules.plans():
        instant = plan.schedule.latest(due) if plan.schedule and plan.since else None
        # One that has run since has caught up.
        if instant and instant > plan.since and not _ran_since(plan.name, instant, now):
            missed.append(plan.name)
    for name in missed:
        if not bell.ring(schedules.TASK, (name,)):
            threading.Thread(target=_run_here, args=(name,), name=f"resolver-{name}", daemon=True).start()
    return 0  # not to be asked again in this pass: the runs have only been asked for


def database_time() -> datetime.datetime:
    """Now, by the database's clock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT glove_clock(0)")
        found: Any = cursor.fetchone()[0]
    if isinstance(found, str):  # SQLite
        return datetime.datetime.fromisoformat(found).replace(tzinfo=datetime.UTC)
    return found


def _run_here(name: str) -> None:
    try:
        run_resolver(name)
    except Exception:
        log.exception("The resolver %s failed.", name)
    finally:
        connections.close_all()


def _ran_since(name: str, instant: datetime.datetime, now: datetime.datetime) -> bool:
    # Up to now: a row that a clock gone wrong once made in the future must not stop the resolver until then.
    return ResolverRun.objects.filter(name=name, instant__gte=instant, instant__lte=now).exists()


def _claim(plan: schedules.Plan, now: datetime.datetime) -> ResolverRun | None:
    instant = plan.schedule.latest(now) if plan.schedule else None
    if instant is None or _ran_since(plan.name, instant, now):
        return None
    try:
        with transaction.atomic():
            return ResolverRun.objects.create(name=plan.name, instant=instant)
    except IntegrityError:
        return None


def _carry_out(run: ResolverRun, resolver: declare.Resolver) -> ResolverRun:
    counts = {"looked_at": 0, "resolved": 0, "failed": 0}
    error = ""
    try:
        for item in _pending(resolver.pattern):
            counts["looked_at"] += 1
            try:
                counts["resolved"] += _ask(resolver, item)
            except Exception as raised:
                counts["failed"] += 1
                error = _told(raised, f"item {item.pk}")
                log.warning("The resolver %s failed for item %s.", resolver.name, item.pk, exc_info=True)
                if isinstance(raised, INFRASTRUCTURE):
                    connection.close()
    except Exception as raised:
        error = _told(raised, "the run")
        raise
    finally:
        ResolverRun.objects.filter(pk=run.pk).update(finished_at=clock(), error=error, **counts)
    run.refresh_from_db()
    return run


def _ask(resolver: declare.Resolver, item: Item) -> bool:
    answer = resolver(item)
    if answer is None:
        return False
    try:
        items.resolve(item.pk, answer, by=resolver.name, via=Item.Via.CRON)
    except (AlreadyClosed, ItemNotFound):  # somebody was first
        return False
    return True


def _pending(pattern: str) -> Iterator[Item]:
    """The pending items that fit, in id order, as far as they were there at the beginning."""
    fits = Item.objects.filter(access.tag_is(pattern), status=Item.Status.PENDING)
    last = fits.aggregate(last=Max("pk"))["last"] or 0
    seen = 0
    while batch := list(fits.filter(pk__gt=seen, pk__lte=last).select_related("mailbox").order_by("pk")[:BATCH]):
        seen = batch[-1].pk
        for item in batch:
            if not item.tag.lower().startswith(tags.RESERVED):  # the system's own are for no resolver
                yield item


def _told(error: Exception, where: str) -> str:
    return text.clean(f"{where}: {type(error).__name__}: {error}", limit=ERROR_BYTES)
