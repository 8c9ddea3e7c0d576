"""A turn's state on the models. Every transaction holds the fence; every move of a call is conditional on its state."""

from collections.abc import Callable
from typing import Any

from django.db import InterfaceError, InternalError, OperationalError, connection, transaction

from agents import limits
from agents.adapters.base import ModelError, Reply, Usage
from agents.declare import Agent, ToolContext
from agents.entries import Call, History
from agents.errors import Fenced, LeaveTurn
from agents.invoke import error_text
from agents.models import Conversation, Message, ModelCall, ToolCall
from agents.services import budgets, doubts, hot, ledger, permissions
from agents.services.endings import start_next
from agents.stores.database import DatabaseStore
from agents.toolbox import tools_for
from inbox.clock import clock
from inbox.models import Mailbox
from inbox.text import is_blank

INFRASTRUCTURE = (OperationalError, InterfaceError, InternalError)
CUT = "\n[The reply was cut here, at its length limit.]"
PROGRESS = ", attempts = 0, backoffs = 0, troubled_at = NULL"


class TurnRun:
    """What the loop needs, on the models. Implements agents.loop.Run."""

    def __init__(self, claim: hot.Claim, conversation: Conversation, agent: Agent) -> None:
        self.claim = claim
        self.conversation = conversation
        self.agent = agent
        self.limits = limits.limits_for(agent)
        self.store = DatabaseStore(conversation, turn=claim.turn)
        self.tools = tools_for(agent, self.store)
        self.model_calls = claim.model_calls
        self.compactions = claim.compactions
        self.context_tokens = conversation.context_tokens
        self.tokens = [claim.input_tokens, claim.output_tokens]
        self.place = 0
        self.ledger: list[ModelCall] = []

    # --- What stands

    def unfinished(self) -> list[Call]:
        """The turn's calls that have yet to run: pending ones, and idempotent ones that a crash left running."""
        if not self.model_calls:  # a fresh turn has asked for none
            return []
        rows = ToolCall.objects.filter(turn=self.claim.turn, status__in=["pending", "running"]).order_by("pk")
        return [Call(row.call_id, row.name, row.input, row.status, row.result, row.pk) for row in rows]

    def has_news(self) -> bool:
        """Whether messages or mail wait."""
        return self.store.has_news()

    def history(self) -> History:
        """What stands since the last summary, with the open blocking requests."""
        return History(hot.read_since_summary(self.conversation.pk), self.store.reminders())

    # --- The steps

    def receive(self) -> History:
        """See agents.services.hot.receive."""
        received = hot.receive(self.claim, self.limits.lease_s, self.conversation.mailbox_id)
        self.place = received.place
        return received.history

    def commit(self, reply: Reply, calls: list[Call]) -> list[Call]:
        """The reply, its usage and its calls, in one transaction."""
        self._count(reply.usage)
        with transaction.atomic():
            self.keep(
                PROGRESS + ", model_calls = %s, input_tokens = %s, output_tokens = %s", [self.model_calls, *self.tokens]
            )
            self.write_ledger()
            message = hot.insert_reply(self.claim, self.place + 1, reply.text, reply.blocks)
            rows = [
                ToolCall(
                    turn_id=self.claim.turn,
                    message_id=message,
                    position=position,
                    call_id=call.call_id,
                    name=call.name[:200],
                    input=call.input,
                    status=call.status,
                    result=call.result,
                    finished_at=clock() if call.finished else None,
                )
                for position, call in enumerate(calls)
            ]
            for call, row in zip(calls, ToolCall.objects.bulk_create(rows), strict=True):
                call.id = row.pk
        self.place += 1
        return [call for call in calls if not call.finished]

    def finish(self, reply: Reply | None) -> None:
        """Conversation locked, fence, message, and the next turn where something came meanwhile."""
        if reply:
            self._count(reply.usage)
        with transaction.atomic():
            rung, status = hot.lock_conversation(
                self.conversation.pk, tokens=(self.tokens[0], self.tokens[1], self.context_tokens)
            )
            heard = self.leave(
                "done",
                "finished_at = glove_clock(0), attempts = 0, model_calls = %s, input_tokens = %s, output_tokens = %s",
                [self.model_calls, *self.tokens],
                returning="heard",
            )[0]
            self.write_ledger()
            if reply and not is_blank(reply.text):
                hot.insert_reply(self.claim, self.place + 1, _shown(reply), reply.blocks)
            if rung > heard and status == Conversation.Status.OPEN:
                start_next(self.conversation.pk)

    def summarise(self, reply: Reply) -> None:
        """The model's summary, with the database's own list of open requests and tasks, read in the same transaction."""
        self._count(reply.usage)
        with transaction.atomic():
            hot.lock_conversation(self.conversation.pk)
            place = self.keep(
                PROGRESS + ", compactions = compactions + 1, model_calls = %s, input_tokens = %s, output_tokens = %s",
                [self.model_calls, *self.tokens],
                returning=hot.LAST_PLACE,
            )[0]
            self.write_ledger()
            Message.objects.create(
                conversation=self.conversation,
                place=place + 1,
                sender=Message.Sender.USER,
                kind=Message.Kind.SUMMARY,
                text=self.store.summary_text(reply.text),
                turn_id=self.claim.turn,
            )
            Conversation.objects.filter(pk=self.conversation.pk).update(head=place + 1, context_tokens=0)
        self.place, self.context_tokens = place + 1, 0
        self.compactions += 1

    # --- The calls

    def begin(self, call: Call, gate: str | None) -> bool:
        """pending -> running, or -> denied where a gated call has no grant."""
        with transaction.atomic():
            self.keep()
            return self._begin(call, gate)

    def settle(self, call: Call, status: str, result: str) -> None:
        """running -> done, failed or unknown. Its state stops a late write too, not only the token."""
        try:
            with transaction.atomic():
                self.keep(PROGRESS if status != "unknown" else "")
                self._move(call, "running", status, result)
        except Fenced:
            self.late(call, status, result)
            raise

    def late(self, call: Call, status: str, result: str) -> None:
        """See agents.services.doubts: kept on the call, and sent once as mail."""
        doubts.record_late(call.id, status, result)

    def run_atomic(self, call: Call, gate: str | None, work: Callable[[], str]) -> None:
        """Effect and journal in one transaction of at most 5 s; where it fails nothing of it stands but the failed call."""
        try:
            with transaction.atomic():
                # The lock order begins at the mailbox, which the tool may need.
                list(Mailbox.objects.select_for_update(no_key=True).filter(pk=self.conversation.mailbox_id))
                self.keep(PROGRESS)
                if not self._begin(call, gate):
                    return
                if connection.vendor == "postgresql":
                    with connection.cursor() as cursor:
                        cursor.execute("SET LOCAL statement_timeout = '5s'")
                self._move(call, "running", "done", work())
        except LeaveTurn:
            raise
        except Exception as error:
            if isinstance(error, INFRASTRUCTURE) and not _was_too_slow(error):
                raise
            call.status, call.result = "pending", ""
            with transaction.atomic():
                self.keep()
                self._move(call, "pending", "running", "")
                self._move(call, "running", "failed", error_text(error))
                # What outlives the refusal, such as a notice to staff.
                getattr(error, "remember", lambda: None)()

    def context(self, call: Call) -> ToolContext:
        """The key is the call's row: the same whenever it runs again."""
        return ToolContext(f"call-{call.id}", self.store.identifier, str(self.conversation.pk), self.store)

    def check_budget(self) -> None:
        """See agents.services.budgets."""
        budgets.check(self.conversation, self.limits)

    def note_model_call(self, purpose: str, seconds: float, outcome: Reply | ModelError) -> None:
        """A row of the ledger, written with the next transaction of this run."""
        self.ledger.append(
            ledger.entry(self.claim, self.conversation, purpose, seconds, outcome, attempt=self.claim.backoffs + 1)
        )

    def pause_connection(self) -> None:
        """With a pool, the connection serves others while the model thinks."""
        if not connection.in_atomic_block and connection.vendor == "postgresql":
            connection.close()

    # --- Inside

    def keep(self, also: str = "", values: Any = (), *, returning: str = "id") -> Any:
        """Keep the turn: renew its lease, and whatever else."""
        sets, lease = hot.RENEW + also, self.limits.lease_s
        return hot.fence(self.claim.turn, self.claim.token, sets, [lease, *values], returning=returning)

    def leave(self, status: str, also: str, values: Any = (), *, returning: str = "id") -> Any:
        """Move out of running, which clears the token."""
        sets = "status = %s, token = NULL, lease_until = NULL, " + also
        return hot.fence(self.claim.turn, self.claim.token, sets, [status, *values], returning=returning)

    def write_ledger(self) -> None:
        if self.ledger:
            ledger.write(self.ledger)
            self.ledger = []

    def _count(self, usage: Usage) -> None:
        self.model_calls += 1
        incoming = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        self.tokens = [self.tokens[0] + incoming, self.tokens[1] + usage.output_tokens]
        self.context_tokens = incoming + usage.output_tokens

    def _begin(self, call: Call, gate: str | None) -> bool:
        if gate is not None:
            refusal = permissions.spend(self.agent.name, call.name, self.conversation.mailbox_id, gate)
            if refusal:
                self._move(call, "pending", "denied", refusal)
                return False
        self._move(call, "pending", "running", "")
        return True

    def _move(self, call: Call, before: str, after: str, result: str) -> None:
        stamp: dict[str, Any] = (
            {"started_at": clock()} if after == "running" else {"finished_at": clock(), "result": result}
        )
        if not ToolCall.objects.filter(pk=call.id, status=before).update(status=after, **stamp):
            raise Fenced
        call.status, call.result = after, result


def _shown(reply: Reply) -> str:
    """What a person reads of the last reply: one that was cut at its length limit says so."""
    return reply.text + CUT if reply.stop_reason == "max_tokens" else reply.text


def _was_too_slow(error: Exception) -> bool:
    """Whether the statement ran into the bound of an atomic tool, rather than the database being away."""
    return getattr(error.__cause__, "sqlstate", None) == "57014"
