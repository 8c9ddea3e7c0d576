"""A turn's state on the models. Every transaction holds the fence; every move of a call is conditional on its state."""

from collections.abc import Callable
from typing import Any

from django.db import DatabaseError, InterfaceError, InternalError, OperationalError, connection, transaction

from agents import limits
from agents.adapters.base import Reply, Usage
from agents.declare import Agent, ToolContext
from agents.entries import Call, History
from agents.errors import Fenced, LeaveTurn, PutOff
from agents.loop import error_text
from agents.models import Conversation, Message, ToolCall
from agents.services import hot, permissions
from agents.services.endings import end_turn, start_next
from agents.stores.database import DatabaseStore
from agents.toolbox import tools_for
from inbox.clock import clock
from inbox.models import Mailbox
from inbox.text import MAX_RESULT_BYTES, clean, is_blank

INFRASTRUCTURE = (OperationalError, InterfaceError, InternalError)
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
            self._fence(
                PROGRESS + ", model_calls = %s, input_tokens = %s, output_tokens = %s", [self.model_calls, *self.tokens]
            )
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
            rung, status = hot.lock_conversation(self.conversation.pk, tokens=(*self.tokens, self.context_tokens))
            heard = self._leave(
                "done",
                "finished_at = glove_clock(0), attempts = 0, model_calls = %s, input_tokens = %s, output_tokens = %s",
                [self.model_calls, *self.tokens],
                returning="heard",
            )[0]
            if reply and not is_blank(reply.text):
                hot.insert_reply(self.claim, self.place + 1, reply.text, reply.blocks)
            if rung > heard and status == Conversation.Status.OPEN:
                start_next(self.conversation.pk)

    def summarise(self, reply: Reply) -> None:
        """The model's summary, with the database's own list of open requests and tasks, read in the same transaction."""
        self._count(reply.usage)
        with transaction.atomic():
            hot.lock_conversation(self.conversation.pk)
            place = self._fence(
                PROGRESS + ", compactions = compactions + 1, model_calls = %s, input_tokens = %s, output_tokens = %s",
                [self.model_calls, *self.tokens],
                returning=hot.LAST_PLACE,
            )[0]
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
            self._fence()
            return self._begin(call, gate)

    def settle(self, call: Call, status: str, result: str) -> None:
        """running -> done, failed or unknown. Its state stops a late write too, not only the token."""
        with transaction.atomic():
            self._fence(PROGRESS if status != "unknown" else "")
            self._move(call, "running", status, result)

    def run_atomic(self, call: Call, gate: str | None, work: Callable[[], str]) -> None:
        """Effect and journal in one transaction of at most 5 s; where it fails nothing of it stands but the failed call."""
        try:
            with transaction.atomic():
                # The lock order begins at the mailbox, which the tool may need.
                list(Mailbox.objects.select_for_update(no_key=True).filter(pk=self.conversation.mailbox_id))
                self._fence(PROGRESS)
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
                self._fence()
                self._move(call, "pending", "running", "")
                self._move(call, "running", "failed", clean(error_text(error), limit=MAX_RESULT_BYTES))

    def context(self, call: Call) -> ToolContext:
        """The key is the call's row: the same whenever it runs again."""
        return ToolContext(f"call-{call.id}", self.store.identifier, str(self.conversation.pk), self.store)

    def pause_connection(self) -> None:
        """With a pool, the connection serves others while the model thinks."""
        if not connection.in_atomic_block and connection.vendor == "postgresql":
            connection.close()

    # --- Leaving

    def hand_back(self) -> None:
        """running -> queued, at once and without counting an attempt: another worker goes on."""
        self._leave("queued", "reason = 'handed_back', rung_at = NULL, not_before = glove_clock(0)")

    def put_off(self, fault: PutOff) -> float | None:
        """running -> queued until the fault may have passed; returns the seconds. After `give_up_s` of nothing else the turn
        fails, and None is returned."""
        tired = self._fence(
            ", troubled_at = COALESCE(troubled_at, glove_clock(0))",
            returning=f"troubled_at < glove_clock({-float(self.limits.give_up_s)})",
        )[0]
        if tired:
            self.fail(fault.reason, str(fault))
            return None
        wait = min(self.limits.backoff_s * 2 ** min(self.claim.backoffs, 30), self.limits.backoff_max_s)
        if fault.seconds is not None:
            wait = max(fault.seconds, 0.0)
        self._leave(
            "queued",
            "reason = %s, error = %s, rung_at = NULL, not_before = glove_clock(%s), input_tokens = %s, output_tokens = %s,"
            " backoffs = CASE WHEN backoffs < 1000 THEN backoffs + 1 ELSE backoffs END",
            [fault.reason, clean(str(fault), limit=2000), wait, *self.tokens],
        )
        return wait

    def fail(self, reason: str, error: str) -> None:
        """running -> failed; open calls are aborted or unknown, in the same transaction."""
        if not end_turn(self.conversation.pk, self.claim.turn, "failed", reason, error, token=self.claim.token):
            raise Fenced

    # --- Inside

    def _fence(self, also: str = "", values: Any = (), *, returning: str = "id") -> Any:
        """Keep the turn: renew its lease, and whatever else."""
        sets, lease = hot.RENEW + also, self.limits.lease_s
        return hot.fence(self.claim.turn, self.claim.token, sets, [lease, *values], returning=returning)

    def _leave(self, status: str, also: str, values: Any = (), *, returning: str = "id") -> Any:
        """Move out of running, which clears the token."""
        sets = "status = %s, token = NULL, lease_until = NULL, " + also
        return hot.fence(self.claim.turn, self.claim.token, sets, [status, *values], returning=returning)

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
        stamp = {"started_at": clock()} if after == "running" else {"finished_at": clock(), "result": result}
        if not ToolCall.objects.filter(pk=call.id, status=before).update(status=after, **stamp):
            raise Fenced
        call.status, call.result = after, result


def _was_too_slow(error: DatabaseError) -> bool:
    """Whether the statement ran into the bound of an atomic tool, rather than the database being away."""
    return getattr(error.__cause__, "sqlstate", None) == "57014"
