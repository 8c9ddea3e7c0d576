"""How a running turn is left before it is done: handed back, put off, or failed."""

from django.db import transaction

from agents.errors import Fenced, PutOff
from agents.services.endings import end_turn
from agents.services.journal import TurnRun
from inbox.text import clean


def hand_back(run: TurnRun) -> None:
    """running -> queued, at once and without counting an attempt: another worker goes on."""
    run.leave("queued", "reason = 'handed_back', rung_at = NULL, not_before = glove_clock(0)")


def put_off(run: TurnRun, fault: PutOff) -> float | None:
    """running -> queued until the fault may have passed; returns the seconds. After `give_up_s` of nothing else the turn fails,
    and None is returned. The provider's own wish wins over the doubling wait."""
    tired, backoffs = run.keep(
        ", troubled_at = COALESCE(troubled_at, glove_clock(0))",
        returning=f"troubled_at < glove_clock({-float(run.limits.give_up_s)}), backoffs",
    )
    if tired:
        fail(run, fault.reason, str(fault))
        return None
    wait = min(run.limits.backoff_s * 2 ** min(backoffs, 30), run.limits.backoff_max_s)
    if fault.seconds is not None:
        wait = max(fault.seconds, run.limits.backoff_s)  # "at once" would be said as often as it is asked
    with transaction.atomic():
        run.leave(
            "queued",
            "reason = %s, error = %s, rung_at = NULL, not_before = glove_clock(%s), input_tokens = %s, output_tokens = %s,"
            " backoffs = CASE WHEN backoffs < 1000 THEN backoffs + 1 ELSE backoffs END",
            [fault.reason, clean(str(fault), limit=2000), wait, *run.account.tokens],
        )
        run.account.write()
    return wait


def fail(run: TurnRun, reason: str, error: str) -> None:
    """running -> failed; open calls are aborted or unknown, in the same transaction."""
    with transaction.atomic():
        conversation, tokens = run.claim.conversation, run.account.tokens
        if not end_turn(conversation, run.claim.turn, "failed", reason, error, token=run.claim.token, tokens=tokens):
            raise Fenced
        run.account.write()
