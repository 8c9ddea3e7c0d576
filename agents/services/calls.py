"""A turn that is ours, and its tool calls: each journaled before it runs and after. Every transaction holds the fence, and every
move of a call is conditional on its state."""

import time
from collections.abc import Callable
from typing import Any

from django.db import InterfaceError, InternalError, OperationalError, connection, transaction

from agents import limits
from agents.declare import Agent, ToolContext
from agents.entries import Call
from agents.errors import Fenced, LeaveTurn, ToolTooSlow
from agents.invoke import error_text
from agents.models import Conversation, ToolCall
from agents.services import doubts, hot, ledger, permissions
from agents.stores.database import DatabaseStore
from agents.toolbox import tools_for
from inbox import pool
from inbox.clock import clock
from inbox.models import Mailbox

INFRASTRUCTURE = (OperationalError, InterfaceError, InternalError)
ATOMIC_S = 5.0  # for the work of an atomic tool
REPLIED = ", backoffs = 0, troubled_at = NULL"
# Only a call that ran to its end is progress: a reply alone would let a model ask for ever for a call that kills its worker.
PROGRESS = REPLIED + ", attempts = 0"
AGAIN_S = (0.2, 1, 2, 4)  # pauses before a result is written again


class ClaimedTurn:
    """The turn's row, which is this run's to write while it holds the token; and the calls of its last reply."""

    def __init__(self, claim: hot.Claim, agent: Agent) -> None:
        self.claim = claim
        # As far as the claim knows it; what else is asked of it is read then.
        self.conversation = Conversation.from_db(
            None, ["id", "agent", "mailbox_id"], [claim.conversation, claim.agent, claim.mailbox]
        )
        self.conversation.mailbox = Mailbox.from_db(None, ["id", "address"], [claim.mailbox, claim.address])
        self.agent = agent
        self.limits = limits.limits_for(agent)
        self.store = DatabaseStore(self.conversation, turn=claim.turn)
        self.tools = tools_for(agent, self.store)
        self.model_calls = claim.model_calls
        self.compactions = claim.compactions
        self.context_tokens = claim.context_tokens
        self.account = ledger.Account(claim)
        self.place = 0

    def keep(self, also: str = "", values: Any = (), *, returning: str = "id") -> Any:
        """Keep the turn: renew its lease, and whatever else."""
        sets, lease = hot.RENEW + also, self.limits.lease_s
        return hot.fence(self.claim.turn, self.claim.token, sets, [lease, *values], returning=returning)

    def leave(self, status: str, also: str, values: Any = (), *, returning: str = "id") -> Any:
        """Move out of running, which clears the token."""
        sets = "status = %s, token = NULL, lease_until = NULL, " + also
        return hot.fence(self.claim.turn, self.claim.token, sets, [status, *values], returning=returning)

    # --- The calls

    def begin(self, call: Call, gate: str | None) -> bool:
        """pending -> running, or -> denied where a gated call has no grant."""
        with transaction.atomic():
            self.keep()
            return self._begin(call, gate)

    def settle(self, call: Call, status: str, result: str) -> None:
        """running -> done, failed or unknown. Its state stops a late write too, not only the token. A database that is away for
        a moment does not lose the result."""
        _again_while_away(lambda: self._settle(call, status, result))

    def settle_interrupted(self) -> None:
        """Calls that a former worker of this turn left running: unknown, unless idempotent. Not only after a lapsed lease: one
        that lost the database for a moment gives the turn back by itself."""
        again = [name for name, tool in self.tools.items() if tool.idempotent]
        with transaction.atomic():
            self.keep()
            calls = ToolCall.objects.filter(turn=self.claim.turn, status="running").exclude(name__in=again)
            calls.update(status="unknown", finished_at=clock())

    def late(self, call: Call, status: str, result: str) -> None:
        """See agents.services.doubts: kept on the call, and sent once as mail, as soon as whoever has the turn now has found the
        call unsettled."""
        for pause in AGAIN_S:
            if not ToolCall.objects.filter(pk=call.id, status="running").exists():
                break
            time.sleep(pause)
        _again_while_away(lambda: doubts.record_late(call.id, status, result))

    def run_atomic(self, call: Call, gate: str | None, work: Callable[[], str]) -> None:
        """Effect and journal in one transaction of at most 5 s; where it fails nothing of it stands but the failed call."""
        try:
            with transaction.atomic():
                # The lock order begins at the mailbox, which the tool may need.
                list(Mailbox.objects.select_for_update(no_key=True).filter(pk=self.conversation.mailbox_id))
                self.keep(PROGRESS)
                if not self._begin(call, gate):
                    return
                self._move(call, "running", "done", _within_bounds(work))
        except LeaveTurn:
            raise
        except Exception as error:
            if isinstance(error, INFRASTRUCTURE) and not _is_the_tools(error):
                raise
            call.status, call.result = "pending", ""
            with transaction.atomic():
                self.keep()
                self._move(call, "pending", "running", "")
                self._move(call, "running", "failed", error_text(error))
                # What outlives the refusal, such as a notice to staff.
                getattr(error, "remember", lambda: None)()

    def context(self, call: Call) -> ToolContext:
        """What the call may know of itself and whom it serves."""
        return ToolContext(call.key, self.store.identifier, str(self.conversation.pk), self.store)

    # --- Inside

    def _begin(self, call: Call, gate: str | None) -> bool:
        if gate is not None:
            refusal = permissions.spend(self.agent.name, call.name, self.conversation.mailbox_id, gate)
            if refusal:
                self._move(call, "pending", "denied", refusal)
                return False
        self._move(call, "pending", "running", "")
        return True

    def _settle(self, call: Call, status: str, result: str) -> None:
        try:
            with transaction.atomic():
                self.keep(PROGRESS if status != "unknown" else "")
                self._move(call, "running", status, result)
        except Fenced:
            if ToolCall.objects.filter(pk=call.id, status=status, result=result).exists():
                call.status, call.result = status, result  # its commit had come through before the connection broke
                return
            self.late(call, status, result)
            raise

    def _move(self, call: Call, before: str, after: str, result: str) -> None:
        stamp: dict[str, Any] = (
            {"started_at": clock()} if after == "running" else {"finished_at": clock(), "result": result}
        )
        if not ToolCall.objects.filter(pk=call.id, status=before).update(status=after, **stamp):
            raise Fenced
        call.status, call.result = after, result


def _again_while_away(write: Callable[[], Any]) -> None:
    """Write; some seconds long again and again where the database is away, or does not come to it."""
    for pause in (*AGAIN_S, None):
        try:
            write()
            return
        except INFRASTRUCTURE:
            if pause is None:
                raise
            pool.discard_dead()
            connection.close()
            time.sleep(pause)


def _within_bounds(work: Callable[[], str]) -> str:
    """The result of an atomic tool's work; where it takes too long, in one statement or in all, an error that takes it back."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = {int(ATOMIC_S * 1000)}")
    began = time.monotonic()
    result = work()
    if (took := time.monotonic() - began) > ATOMIC_S:
        raise ToolTooSlow(f"It took {took:.1f} s, and an atomic tool has {ATOMIC_S:g} s. Nothing of it stands.")
    return result


def _is_the_tools(error: Exception) -> bool:
    """Whether a fault lies in what the tool asked of the database, rather than in the database being away: a statement that was
    too slow, one after a fault that the tool had swallowed, one after so long a pause that the session was ended, and wrong SQL,
    which on SQLite is no class of its own."""
    cause = error.__cause__
    return (
        getattr(cause, "sqlstate", None) in ("57014", "25P02", "25P03") or getattr(cause, "sqlite_errorcode", None) == 1
    )
