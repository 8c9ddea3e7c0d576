"""The loop on any store, in the caller's own process: one turn, without wakes, leases or workers.

A step (a reply and the results of its calls) is appended when its calls have run. A process that dies in a step loses that step;
what survives a crash in the middle of one is the business of the models (services/journal.py)."""

import itertools
import logging
from collections.abc import Callable
from typing import Any

from agents import limits
from agents.adapters.base import ModelError, Reply, Usage
from agents.declare import Agent, ToolContext
from agents.entries import Call, Entry, History
from agents.frames import draw_nonce, frame
from agents.invoke import error_text
from agents.loop import run_turn
from agents.stores.base import StoreAdapter
from agents.stores.summary import summary_text
from agents.toolbox import tools_for
from inbox.text import check, is_blank

log = logging.getLogger(__name__)
REFUSED = "Refused: {tool} needs a permission, and there is none for these arguments."


def run_on_store(agent: Agent, store: StoreAdapter, text: str) -> str:
    """See StoreAdapter.run. After a PutOff the caller may try again with run(store, "")."""
    run = StoreRun(agent, store)
    if text:
        store.append_messages([Entry("user", check(text))])
    store.increment_turn()
    run_turn(run)
    return run.said


class StoreRun:
    """What the loop needs, on a store. Implements agents.loop.Run."""

    def __init__(self, agent: Agent, store: StoreAdapter) -> None:
        self.agent = agent
        self.store: Any = store
        self.limits = limits.limits_for(agent)
        self.tools = tools_for(agent, store)
        self.model_calls = 0
        self.compactions = 0
        self.context_tokens = 0
        self.said = ""
        self._step: Entry | None = None
        self._turn = store.get_turn_count() + 1
        self._numbers = itertools.count(1)

    def unfinished(self) -> list[Call]:
        """None: a step is appended as a whole."""
        return []

    def has_news(self) -> bool:
        """Whether mail waits."""
        return bool(self.store.has("inbox") and self.store.get_resolved_inbox_items())

    def history(self) -> History:
        """What stands since the last summary."""
        self._keep_step()
        return History(self.store.get_messages(), self._open_requests(blocking_only=True))

    def receive(self) -> History:
        """Mail enters the history and is consumed, in one."""
        self._keep_step()
        if self.store.has("inbox"):
            with self.store.atomic():
                for item in self.store.get_resolved_inbox_items():
                    text = frame(item, draw_nonce(item.request, item.response))
                    self.store.append_messages([Entry("user", text, "inbox")])
                    self.store.update_inbox_item(item.id, action="consume")
        return self.history()

    def commit(self, reply: Reply, calls: list[Call]) -> list[Call]:
        """Held until its calls have run."""
        self._count(reply.usage)
        for call in calls:
            call.id = f"{self._turn}-{next(self._numbers)}"
        self._step = Entry("agent", reply.text, "message", reply.blocks, calls)
        return [call for call in calls if not call.finished]

    def finish(self, reply: Reply | None) -> None:
        """The last reply enters the history."""
        if reply:
            self._count(reply.usage)
            if not is_blank(reply.text):
                self.store.append_messages([Entry("agent", reply.text, "message", reply.blocks)])
                self.said = reply.text

    def summarise(self, reply: Reply) -> None:
        """The summary enters the history, with what is open."""
        self._count(reply.usage)
        with self.store.atomic():
            tasks = self.store.get_tasks() if self.store.has("tasks") else []
            text = summary_text(reply.text, self._open_requests(), tasks)
            self.store.append_messages([Entry("user", text, "summary")])
        self.compactions += 1
        self.context_tokens = 0

    def begin(self, call: Call, gate: str | None) -> bool:
        """A gated call needs a grant; a store that keeps none runs none."""
        if gate is not None and not (
            self.store.has("permissions") and self.store.use_permission(call.name, gate) == "grant"
        ):
            call.status, call.result = "denied", REFUSED.format(tool=call.name)
            return False
        call.status = "running"
        return True

    def settle(self, call: Call, status: str, result: str) -> None:
        """The result stands on the step."""
        call.status, call.result = status, result

    def run_atomic(self, call: Call, gate: str | None, work: Callable[[], str]) -> None:
        """The effect is undone where the tool fails."""
        try:
            with self.store.atomic():
                if self.begin(call, gate):
                    self.settle(call, "done", work())
        except Exception as error:
            self.settle(call, "failed", error_text(error))

    def context(self, call: Call) -> ToolContext:
        """The key names the store and the call."""
        name = self.store.identifier
        return ToolContext(f"{name}-{call.key}", name, name, self.store)

    def late(self, call: Call, status: str, result: str) -> None:
        """Logged: a store has no mail of its own making."""
        log.warning("The tool %s answered after its timeout: %s", call.name, status)

    def check_budget(self) -> None:
        """A store keeps no days; its caller decides what to spend."""

    def note_model_call(self, purpose: str, seconds: float, outcome: Reply | ModelError) -> None:
        """Tokens are counted on the store; there is no ledger."""

    def pause_connection(self) -> None:
        """Nothing to give back."""

    def _open_requests(self, *, blocking_only: bool = False) -> list[Any]:
        if not self.store.has("inbox"):
            return []
        return [item for item in self.store.get_inbox_items("pending") if item.blocking or not blocking_only]

    def _keep_step(self) -> None:
        if self._step:
            self.store.append_messages([self._step])
            self._step = None

    def _count(self, usage: Usage) -> None:
        self.model_calls += 1
        incoming = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        self.context_tokens = incoming + usage.output_tokens
        self.store.add_tokens(self.context_tokens)
