"""Starting a turn: claim it, run the loop, and leave it in a named state whatever happened."""

import logging
import time

from django.conf import settings
from django.db import connection
from django.db.models import F

from agents import bell, loop, registry, stopping
from agents.errors import AgentsError, Fenced, HandBack, PutOff, TurnFailed
from agents.limits import Limits
from agents.models import Turn
from agents.services import hot, leases, leaving
from agents.services.calls import INFRASTRUCTURE
from agents.services.endings import end_turn
from agents.services.journal import TurnRun
from inbox import pool
from inbox.clock import clock, now

log = logging.getLogger(__name__)
LONGEST_COUNTDOWN_S = 60
CLAIM_AGAIN_S = (0.2, 1, 3)


def start(turn_id: int) -> str:
    """Claim and run one turn. Returns how it left: missed (not due, or somebody else's), done, handed_back, put_off, failed,
    fenced (it was ended or taken over meanwhile) or lost (the database went away; the lease will lapse)."""
    if stopping.flag.is_set():
        return "missed"
    try:
        claim = _claim(turn_id)
        if claim is None:
            return "missed"
        run = _ready(claim)
        if run is None:
            return "failed"
        with leases.kept(claim.token, run.limits.lease_s):
            return _run(run)
    except Fenced:
        return "fenced"
    except INFRASTRUCTURE:
        log.warning("Turn %s: the database went away", turn_id, exc_info=True)
        pool.discard_dead()
        connection.close()
        return "lost"


def due_turns(limit: int = 100) -> list[int]:
    """Turns to ring: queued, due and not rung for RING_AGAIN_S, or running on a lapsed lease. Marks them as rung now, each once."""
    again = now(-settings.RING_AGAIN_S)
    queued = Turn.objects.filter(status=Turn.Status.QUEUED, not_before__lte=now())
    lapsed = Turn.objects.filter(status=Turn.Status.RUNNING, lease_until__lt=now())
    due = []
    for rows, order in ((queued, "not_before"), (lapsed, "lease_until")):
        unrung = rows.filter(rung_at=None) | rows.filter(rung_at__lt=again)
        if rows is lapsed:
            unrung |= rows.filter(rung_at__lt=F("lease_until"))  # not since its worker was lost
        for pk in unrung.order_by(order).values_list("pk", flat=True)[:limit]:
            if unrung.filter(pk=pk).update(rung_at=clock()):
                due.append(pk)
    return due


def bells_are_gone() -> int:
    """Queued turns count as not rung, since the memory that their bells hung in is gone. Returns how many."""
    return Turn.objects.filter(status=Turn.Status.QUEUED).exclude(rung_at=None).update(rung_at=None)


def _claim(turn_id: int) -> hot.Claim | None:
    """The claim. A connection that had died, or a database that is away for a moment, does not use up the doorbell."""
    for pause in (*CLAIM_AGAIN_S, None):
        try:
            return hot.claim(turn_id, settings.AGENT_LIMITS.get("lease_s", Limits.lease_s))
        except INFRASTRUCTURE:
            if pause is None or not pool.discard_dead():
                raise
            connection.close()
            time.sleep(pause)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _ready(claim: hot.Claim) -> TurnRun | None:
    """What it takes to run the turn; where that is not to be had, the turn fails."""
    try:
        run = TurnRun(claim, registry.get_agent(claim.agent))
    except INFRASTRUCTURE:
        raise
    except Exception as error:
        log.exception("Turn %s cannot run; its mail is kept", claim.turn)
        reason = error.slug.replace("-", "_") if isinstance(error, AgentsError) else "error"
        end_turn(claim.conversation, claim.turn, "failed", reason, str(error), token=claim.token)
        return None
    if claim.attempts >= run.limits.attempts:
        leaving.fail(run, "attempts", f"The worker was lost {claim.attempts} times while it ran this turn.")
        log.error("Turn %s failed: its worker was lost %s times", claim.turn, claim.attempts)
        return None
    if claim.model_calls:
        run.settle_interrupted()
    return run


def _run(run: TurnRun) -> str:
    try:
        return _run_and_leave(run)
    except Fenced:
        run.account.write_too_late()
        raise


def _run_and_leave(run: TurnRun) -> str:
    try:
        loop.run_turn(run)
        return "done"
    except HandBack:
        leaving.hand_back(run)
        bell.ring(run.claim.turn)  # for another worker; this one takes no more
        return "handed_back"
    except PutOff as fault:
        wait = leaving.put_off(run, fault)
        if wait is None:
            return "failed"
        if wait <= LONGEST_COUNTDOWN_S:  # a longer one is the sweep's: the broker would hold it in a worker's memory
            bell.ring(run.claim.turn, countdown=wait)
        return "put_off"
    except TurnFailed as error:
        leaving.fail(run, error.reason, str(error))
        return "failed"
    except Fenced:
        raise
    except INFRASTRUCTURE as error:
        log.warning("Turn %s: the database failed", run.claim.turn, exc_info=True)
        pool.discard_dead()
        connection.close()
        leaving.put_off(run, PutOff("database", f"{type(error).__name__}: {error}"))
        return "put_off"
    except Exception as error:
        log.exception("Turn %s failed", run.claim.turn)
        leaving.fail(run, "error", f"{type(error).__name__}: {error}")
        return "failed"
