"""The store contract: required methods, and optional groups. A group that a store implements switches its tools on:

`inbox`        glove_post_to_inbox and glove_update_inbox; mail is read; blocking requests are reminded of
`tasks`        glove_update_tasks
`permissions`  tools marked `permission` run where granted; without the group they are refused
"""

import abc
import datetime
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

from agents.entries import Entry

NO_ANSWER = "This item is pending: there is no answer to read yet."
GROUPS = {
    "inbox": ("get_inbox_items", "add_inbox_item", "update_inbox_item", "get_resolved_inbox_items"),
    "tasks": ("get_tasks", "add_tasks", "update_task"),
    "permissions": ("get_permission", "set_permission"),
}


@dataclass
class StoredItem:
    """An item as a store gives it out. Times are aware, in UTC."""

    id: Any
    tag: str
    request: str
    response: str = ""
    status: str = "pending"  # pending, resolved, consumed
    outcome: str = ""
    blocking: bool = False
    asked: bool = True
    resolved_by: str = ""
    resolved_via: str = ""
    resolved_at: datetime.datetime | None = None
    due_at: datetime.datetime | None = None


@dataclass
class StoredTask:
    """One task. `status` is pending, in_progress or completed."""

    content: str
    active_form: str
    status: str
    id: Any = None


class StoreAdapter(abc.ABC):
    """One conversation's state.

    Optional, as whole groups:

    `get_inbox_items(status=None) -> list[StoredItem]`, oldest first
    `add_inbox_item(*, tag, request, blocking=False, due_in_s=None) -> StoredItem`; an identical open request is joined
    `update_inbox_item(item_id, *, action, text="") -> StoredItem`: action is resolve (text is the response), consume, or
        withdraw (text is the reason); raises inbox.errors.ItemNotFound (also where there is no answer to consume), AlreadyClosed
    `get_resolved_inbox_items() -> list[StoredItem]`, in the order in which they were resolved

    `get_tasks() -> list[StoredTask]`; `add_tasks(tasks) -> list[StoredTask]` replaces the list
    `update_task(task_id, status) -> StoredTask`

    `get_permission(tool, arguments) -> "grant" | "deny" | None`, where arguments is canonical JSON
    `set_permission(tool, decision, *, scope, arguments="")`, where scope is call, arguments or any
    `use_permission(tool, arguments)`: see below
    """

    subclasses: ClassVar[list[type["StoreAdapter"]]] = []

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        StoreAdapter.subclasses.append(cls)

    @property
    @abc.abstractmethod
    def identifier(self) -> str:
        """A name for people: whose state this is."""

    @abc.abstractmethod
    def get_messages(self) -> list[Entry]:
        """The history since the last summary, oldest first."""

    @abc.abstractmethod
    def append_messages(self, entries: list[Entry]) -> None:
        """Add to the history. An entry of kind summary is where the next get_messages begins. Calls in it are finished."""

    @abc.abstractmethod
    def get_token_count(self) -> int:
        """Tokens of all model calls so far, in and out."""

    @abc.abstractmethod
    def add_tokens(self, count: int) -> None:
        """Add to it."""

    @abc.abstractmethod
    def get_turn_count(self) -> int:
        """Turns begun so far."""

    @abc.abstractmethod
    def increment_turn(self) -> int:
        """Count one more; returns the new number."""

    @abc.abstractmethod
    def atomic(self) -> AbstractContextManager[Any]:
        """Everything inside happens, or nothing of it."""

    def run(self, agent: Any, text: str) -> str:
        """One turn of the agent on this store, in this process; the reply's text. Without a text it answers what waits. Raises
        TurnFailed, and PutOff where the model cannot answer now."""
        from agents.stores.run import run_on_store  # the loop imports stores' kin

        return run_on_store(agent, self, text)

    def use_permission(self, tool: str, arguments: str) -> str | None:
        """As get_permission, for a call that is about to run: a grant of scope call is used up by it. A store that keeps such
        grants says here how."""
        return self.get_permission(tool, arguments)  # type: ignore[attr-defined]

    @classmethod
    def has(cls, group: str) -> bool:
        """Whether the whole group is there."""
        return all(callable(getattr(cls, method, None)) for method in GROUPS[group])

    @classmethod
    def half_done(cls) -> dict[str, list[str]]:
        """Groups of which only some methods are there: group -> those that are missing."""
        missing = {name: [m for m in methods if not hasattr(cls, m)] for name, methods in GROUPS.items()}
        return {name: gaps for name, gaps in missing.items() if gaps and len(gaps) < len(GROUPS[name])}
