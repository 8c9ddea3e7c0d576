"""A turn's state on the models: what stands, and the steps. The calls are in agents/services/calls.py."""

from django.db import connection, transaction

from agents.adapters.base import ModelError, Reply, Usage
from agents.entries import Call, History
from agents.models import Conversation, ToolCall
from agents.services import budgets, hot, ledger
from agents.services.calls import PROGRESS, REPLIED, ClaimedTurn
from agents.services.endings import start_next
from inbox.clock import clock
from inbox.text import is_blank

CUT = "\n[The reply was cut here, at its length limit.]"
SPENT = ", model_calls = %s, input_tokens = %s, output_tokens = %s"


class TurnRun(ClaimedTurn):
    """What the loop needs, on the models. Implements agents.loop.Run."""

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
            self.keep(REPLIED + SPENT, self._spent)
            self.account.write()
            message = hot.insert_message(self.claim, self.place + 1, reply.text, reply.blocks)
            rows = [self._row(message, position, call) for position, call in enumerate(calls)]
            for call, row in zip(calls, ToolCall.objects.bulk_create(rows), strict=True):
                call.id = row.pk
        self.place += 1
        return [call for call in calls if not call.finished]

    def finish(self, reply: Reply | None) -> None:
        """Conversation locked, fence, message, and the next turn where something came meanwhile."""
        if reply:
            self._count(reply.usage)
        with transaction.atomic():
            incoming, outgoing = self.account.tokens
            spent = (incoming, outgoing, self.context_tokens)
            rung, status = hot.lock_conversation(self.conversation.pk, tokens=spent)
            ended = "finished_at = glove_clock(0)" + PROGRESS + SPENT
            heard = self.leave("done", ended, self._spent, returning="heard")[0]
            self.account.write()
            if reply and not is_blank(reply.text):
                hot.insert_message(self.claim, self.place + 1, _shown(reply), reply.blocks)
            if rung > heard and status == Conversation.Status.OPEN:
                start_next(self.conversation.pk)

    def summarise(self, reply: Reply) -> None:
        """The model's summary, with the database's own list of open requests and tasks, read in the same transaction."""
        self._count(reply.usage)
        with transaction.atomic():
            hot.lock_conversation(self.conversation.pk)
            counted = REPLIED + ", compactions = compactions + 1" + SPENT
            place = self.keep(counted, self._spent, returning=hot.LAST_PLACE)[0] + 1
            self.account.write()
            hot.insert_message(self.claim, place, self.store.summary_text(_shown(reply)), sender="user", kind="summary")
            Conversation.objects.filter(pk=self.conversation.pk).update(head=place, context_tokens=0)
        self.place, self.context_tokens = place, 0
        self.compactions += 1

    def check_budget(self) -> None:
        """See agents.services.budgets."""
        budgets.check(self.conversation, self.limits)

    def note_model_call(self, purpose: str, seconds: float, outcome: Reply | ModelError) -> None:
        """See agents.services.ledger."""
        self.account.note(purpose, seconds, outcome)

    def pause_connection(self) -> None:
        """With a pool, the connection serves others while the model thinks."""
        if not connection.in_atomic_block and connection.vendor == "postgresql":
            connection.close()

    # --- Inside

    @property
    def _spent(self) -> list[int]:
        return [self.model_calls, *self.account.tokens]

    def _count(self, usage: Usage) -> None:
        self.model_calls += 1
        self.context_tokens = ledger.prompt_tokens(usage) + usage.output_tokens

    def _row(self, message: int, position: int, call: Call) -> ToolCall:
        return ToolCall(
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


def _shown(reply: Reply) -> str:
    """What is read of a last reply or a summary: one that was cut at its length limit says so."""
    return reply.text + CUT if reply.stop_reason == "max_tokens" else reply.text
