"""A store in this process's memory: for scripts and tests. It is gone when the process is."""

import copy
import datetime
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from django.utils import timezone

from agents.entries import Entry
from agents.errors import BadTasks
from agents.stores.base import NO_ANSWER, StoreAdapter, StoredItem, StoredTask
from inbox import tags, text
from inbox.errors import AlreadyClosed, BadDeadline, ItemNotFound, TooManyOpenItems

MAX_OPEN = 20


class MemoryStore(StoreAdapter):
    """One conversation in memory. Safe to use from several threads; `atomic()` undoes everything where an exception leaves it."""

    def __init__(self, identifier: str = "memory") -> None:
        self._identifier = identifier
        self._lock = threading.RLock()
        self._state: dict[str, Any] = {
            "messages": [],
            "items": [],
            "tasks": [],
            "permissions": [],
            "tokens": 0,
            "turns": 0,
        }

    @property
    def identifier(self) -> str:
        """As given."""
        return self._identifier

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """A copy of the state is put back where an exception leaves."""
        with self._lock:
            before = copy.deepcopy(self._state)
            try:
                yield
            except BaseException:
                self._state = before
                raise

    def get_messages(self) -> list[Entry]:
        """See StoreAdapter."""
        with self._lock:
            entries: list[Entry] = self._state["messages"]
            heads = [index for index, entry in enumerate(entries) if entry.kind == "summary"]
            return copy.deepcopy(entries[heads[-1] if heads else 0 :])

    def append_messages(self, entries: list[Entry]) -> None:
        """See StoreAdapter."""
        with self._lock:
            self._state["messages"] += copy.deepcopy(entries)

    def get_token_count(self) -> int:
        """See StoreAdapter."""
        return self._state["tokens"]

    def add_tokens(self, count: int) -> None:
        """See StoreAdapter."""
        with self._lock:
            self._state["tokens"] += count

    def get_turn_count(self) -> int:
        """See StoreAdapter."""
        return self._state["turns"]

    def increment_turn(self) -> int:
        """See StoreAdapter."""
        with self._lock:
            self._state["turns"] += 1
            return self._state["turns"]

    # --- Inbox

    def get_inbox_items(self, status: str | None = None) -> list[StoredItem]:
        """See StoreAdapter. Items past their deadline are expired as they are looked at."""
        with self._lock:
            self._expire()
            return [replace(item) for item in self._state["items"] if status in (None, item.status)]

    def add_inbox_item(
        self, *, tag: str, request: str, blocking: bool = False, due_in_s: float | None = None
    ) -> StoredItem:
        """See StoreAdapter."""
        tags.check_tag(tag)
        text.check(request, what="request")
        if due_in_s is not None and due_in_s < 1:
            raise BadDeadline
        with self._lock:
            pending = self.get_inbox_items("pending")
            for item in pending:
                if (item.tag, item.request) == (tag, request):
                    return item
            if len(pending) >= MAX_OPEN:
                raise TooManyOpenItems(open=MAX_OPEN)
            due = None if due_in_s is None else timezone.now() + datetime.timedelta(seconds=due_in_s)
            item = StoredItem(str(len(self._state["items"]) + 1), tag, request, blocking=blocking, due_at=due)
            self._state["items"].append(item)
            return replace(item)

    def update_inbox_item(self, item_id: Any, *, action: str, text: str = "") -> StoredItem:
        """See StoreAdapter."""
        with self._lock:
            self._expire()
            item = next((one for one in self._state["items"] if one.id == str(item_id)), None)
            if item is None:
                raise ItemNotFound
            if action == "consume" and item.status == "pending":
                raise ItemNotFound(NO_ANSWER)
            if item.status != ("resolved" if action == "consume" else "pending"):
                raise AlreadyClosed(f"The item is {item.status}. Nothing was changed.", text=text)
            if action == "consume":
                item.status = "consumed"
            else:
                item.status, item.outcome = (
                    ("resolved", "answered") if action == "resolve" else ("consumed", "withdrawn")
                )
                item.response, item.resolved_at = text, timezone.now()
                item.resolved_by, item.resolved_via = ("the program", "system")
            return replace(item)

    def get_resolved_inbox_items(self) -> list[StoredItem]:
        """See StoreAdapter."""
        found = self.get_inbox_items("resolved")
        return sorted(found, key=lambda item: (item.resolved_at, int(item.id)))

    def _expire(self) -> None:
        now = timezone.now()
        for item in self._state["items"]:
            if item.status == "pending" and item.due_at and item.due_at <= now:
                item.status, item.outcome, item.response = "resolved", "expired", "Nobody answered in time."
                item.resolved_by, item.resolved_via, item.resolved_at = "deadline", "deadline", now

    # --- Tasks

    def get_tasks(self) -> list[StoredTask]:
        """See StoreAdapter."""
        with self._lock:
            return copy.deepcopy(self._state["tasks"])

    def add_tasks(self, tasks: list[StoredTask]) -> list[StoredTask]:
        """See StoreAdapter."""
        if any(task.status not in ("pending", "in_progress", "completed") for task in tasks):
            raise BadTasks
        with self._lock:
            self._state["tasks"] = [replace(task, id=str(index)) for index, task in enumerate(tasks)]
            return self.get_tasks()

    def update_task(self, task_id: Any, status: str) -> StoredTask:
        """See StoreAdapter."""
        with self._lock:
            task = next((one for one in self._state["tasks"] if one.id == str(task_id)), None)
            if task is None or status not in ("pending", "in_progress", "completed"):
                raise BadTasks
            task.status = status
            return replace(task)

    # --- Permissions

    def get_permission(self, tool: str, arguments: str) -> str | None:
        """See StoreAdapter."""
        fits = {
            decision
            for name, decision, scope, exact in self._state["permissions"]
            if name == tool and (scope == "any" or exact == arguments)
        }
        return "deny" if "deny" in fits else "grant" if fits else None

    def use_permission(self, tool: str, arguments: str) -> str | None:
        """See StoreAdapter. Lasting grants are used before those for one call."""
        with self._lock:
            decision, kept = self.get_permission(tool, arguments), self._state["permissions"]
            once = (tool, "grant", "call", arguments)
            lasting = any(
                (name, given) == (tool, "grant") and (scope == "any" or (scope == "arguments" and exact == arguments))
                for name, given, scope, exact in kept
            )
            if decision == "grant" and not lasting:
                kept.remove(once)
            return decision

    def set_permission(self, tool: str, decision: str, *, scope: str, arguments: str = "") -> None:
        """See StoreAdapter."""
        with self._lock:
            self._state["permissions"].append((tool, decision, scope, arguments))
