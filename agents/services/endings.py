"""How a turn ends when it is not done, and what follows an end."""

from collections.abc import Sequence

from django.db import transaction

from agents import bell
from agents.models import Conversation, ToolCall, Turn
from agents.services import hot
from inbox.clock import clock
from inbox.text import clean

OPEN = (Turn.Status.QUEUED, Turn.Status.RUNNING, Turn.Status.WAITING)
NOT_STARTED = (ToolCall.Status.PENDING, ToolCall.Status.WAITING, ToolCall.Status.DEFERRED)


def start_next(conversation_id: int) -> None:
    """A queued turn, unless one is open, and its doorbell after commit. The caller holds the conversation's lock."""
    if turn := hot.insert_turn(conversation_id):
        transaction.on_commit(lambda: _ring(turn), robust=True)


def _ring(turn_id: int) -> None:
    """A bell that no broker took counts as not rung: the next sweep takes the turn up, instead of one a minute later."""
    if not bell.ring(turn_id):
        Turn.objects.filter(pk=turn_id, status=Turn.Status.QUEUED).update(rung_at=None)


def end_turn(
    conversation_id: int,
    turn_id: int,
    status: str,
    reason: str,
    error: str = "",
    *,
    token: int | None = None,
    tokens: Sequence[int] = (),
) -> bool:
    """failed (of a running turn, by the token's holder, who says how many tokens went in and out) or cancelled (of any open one).
    Returns whether it was this that ended it.

    In one transaction, in lock order: the conversation; the turn; its open calls (those that had not started are aborted, a
    running one's outcome is unknown); the next turn, if something came that this one has not heard and it was ever claimed."""
    with transaction.atomic():
        rung, state = hot.lock_conversation(conversation_id)
        turns = Turn.objects.filter(pk=turn_id, conversation_id=conversation_id)
        mine = turns.filter(status=Turn.Status.RUNNING, token=token) if token else turns.filter(status__in=OPEN)
        moved = mine.update(
            status=status,
            reason=reason[:40],
            error=clean(error, limit=4000),
            token=None,
            lease_until=None,
            finished_at=clock(),
            **dict(zip(("input_tokens", "output_tokens"), tokens, strict=False)),
        )
        if not moved:
            return False
        calls = ToolCall.objects.filter(turn_id=turn_id)
        calls.filter(status__in=NOT_STARTED).update(status=ToolCall.Status.ABORTED, finished_at=clock())
        calls.filter(status=ToolCall.Status.RUNNING).update(status=ToolCall.Status.UNKNOWN, finished_at=clock())
        turn = turns.get()
        if turn.input_tokens or turn.output_tokens:
            hot.lock_conversation(conversation_id, tokens=(turn.input_tokens, turn.output_tokens, 0))
        if turn.started_at and rung > turn.heard and state == Conversation.Status.OPEN:
            start_next(conversation_id)
    return True
