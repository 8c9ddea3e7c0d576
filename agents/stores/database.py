"""The store on the models: what turns, wake, admin and API use. Every write is a service's."""

from contextlib import AbstractContextManager
from typing import Any

from django.db import transaction
from django.db.models import Q

from agents.entries import Entry
from agents.errors import BadTasks, PutOff, TurnFailed
from agents.models import Conversation, Message, Task, Turn
from agents.services import history, hot, permissions, posting, tasks
from agents.stores.base import NO_ANSWER, StoreAdapter, StoredItem, StoredTask
from agents.stores.summary import summary_text
from inbox.errors import ItemNotFound
from inbox.models import Item
from inbox.services import items, reading


class DatabaseStore(StoreAdapter):
    """One conversation of the database. `turn` is the turn on whose behalf it writes, if any."""

    def __init__(self, conversation: Conversation, turn: int | None = None) -> None:
        self.conversation = conversation
        self.turn = turn

    @property
    def identifier(self) -> str:
        """The mailbox's address."""
        return self.conversation.mailbox.address

    def atomic(self) -> AbstractContextManager[Any]:
        """A database transaction."""
        return transaction.atomic()

    def get_messages(self) -> list[Entry]:
        """See StoreAdapter."""
        return hot.read_since_summary(self.conversation.pk)

    def append_messages(self, entries: list[Entry]) -> None:
        """See StoreAdapter. For imports: a turn keeps its own through the journal."""
        history.append(self.conversation.pk, entries)

    def get_token_count(self) -> int:
        """See StoreAdapter."""
        row = Conversation.objects.values_list("input_tokens", "output_tokens").get(pk=self.conversation.pk)
        return sum(row)

    def add_tokens(self, count: int) -> None:
        """See StoreAdapter."""
        hot.lock_conversation(self.conversation.pk, tokens=(count, 0, 0))

    def get_turn_count(self) -> int:
        """See StoreAdapter: rows of the conversation, and those counted by increment_turn."""
        return Turn.objects.filter(conversation=self.conversation).count()

    def increment_turn(self) -> int:
        """See StoreAdapter."""
        history.count_turn(self.conversation.pk)
        return self.get_turn_count()

    def run(self, agent: Any, text: str) -> str:
        """Say it, and run the turn here instead of in a worker."""
        from agents.services import conversations, turns  # they import this store

        if text:
            conversations.say(self.conversation.pk, text)
        else:
            conversations.nudge(self.conversation.pk)
        turn = Turn.objects.filter(conversation=self.conversation).latest("pk")
        turns.start(turn.pk)  # or a worker has it already
        turn.refresh_from_db()
        if turn.status == Turn.Status.FAILED:
            raise TurnFailed(turn.reason, turn.error)
        if turn.status == Turn.Status.QUEUED:
            raise PutOff(turn.reason, turn.error)
        said = Message.objects.filter(turn=turn, sender=Message.Sender.AGENT).order_by("-place").first()
        return said.text if said else ""

    # --- Inbox

    def get_inbox_items(self, status: str | None = None) -> list[StoredItem]:
        """The items that this conversation posted or reads."""
        found = Item.objects.filter(self._mine(), mailbox_id=self.conversation.mailbox_id)
        if status is not None:
            found = found.filter(status=status)
        return [_stored(item) for item in found.order_by("pk")]

    def add_inbox_item(
        self, *, tag: str, request: str, blocking: bool = False, due_in_s: float | None = None
    ) -> StoredItem:
        """See StoreAdapter."""
        item = posting.post(
            self.conversation.pk,
            self.conversation.mailbox_id,
            tag=tag,
            request=request,
            blocking=blocking,
            due_in_s=due_in_s,
            turn=self.turn,
        )
        return _stored(item)

    def update_inbox_item(self, item_id: Any, *, action: str, text: str = "") -> StoredItem:
        """See StoreAdapter."""
        mailbox = self.conversation.mailbox_id
        pk = _number(item_id)
        if action == "withdraw":
            return _stored(items.withdraw(pk, mailbox_id=mailbox, reason=text, consumed_in=self.turn))
        if not Item.objects.filter(pk=pk, mailbox_id=mailbox).exists():
            items.refuse(-1, text)
        if action == "consume":
            if Item.objects.filter(pk=pk, status=Item.Status.PENDING).exists():
                raise ItemNotFound(NO_ANSWER)
            if not reading.consume([pk], self.turn):
                items.refuse(pk, text)
            return _stored(Item.objects.get(pk=pk))
        return _stored(items.resolve(pk, text, by="the program", via=Item.Via.SYSTEM))

    def get_resolved_inbox_items(self) -> list[StoredItem]:
        """See StoreAdapter."""
        found = Item.objects.filter(self._mine(), mailbox_id=self.conversation.mailbox_id, status=Item.Status.RESOLVED)
        return [_stored(item) for item in found.order_by("resolved_at", "pk")]

    def reminders(self) -> list[reading.OpenRequest]:
        """The open blocking requests whose answers this conversation will read."""
        return reading.open_requests(self.conversation.mailbox_id, self.conversation.pk, blocking_only=True)

    def has_news(self) -> bool:
        """Whether a receive would bring something."""
        queued = Message.objects.filter(conversation=self.conversation, place=None)
        mail = Item.objects.filter(self._mine(), mailbox_id=self.conversation.mailbox_id, status=Item.Status.RESOLVED)
        return queued.exists() or mail.exists()

    def summary_text(self, words: str) -> str:
        """The model's summary with what is open, as the database has it now."""
        requests = reading.open_requests(self.conversation.mailbox_id, self.conversation.pk)
        return summary_text(words, requests, self.get_tasks())

    def _mine(self) -> Q:
        """Mail that this conversation asked for, and mail that no open one did."""
        return Q(origin=self.conversation.pk) | Q(origin=None)

    # --- Tasks

    def get_tasks(self) -> list[StoredTask]:
        """See StoreAdapter."""
        rows = Task.objects.filter(conversation=self.conversation).order_by("position")
        return [StoredTask(row.content, row.active_form, row.status, row.pk) for row in rows]

    def add_tasks(self, new: list[StoredTask]) -> list[StoredTask]:
        """See StoreAdapter."""
        tasks.replace_tasks(self.conversation.pk, [(task.content, task.active_form, task.status) for task in new])
        return self.get_tasks()

    def update_task(self, task_id: Any, status: str) -> StoredTask:
        """See StoreAdapter."""
        tasks.set_status(self.conversation.pk, _number(task_id), status)
        found = next((task for task in self.get_tasks() if task.id == _number(task_id)), None)
        if found is None:
            raise BadTasks
        return found

    # --- Permissions

    def get_permission(self, tool: str, arguments: str) -> str | None:
        """See StoreAdapter."""
        return permissions.standing(self.conversation.agent, tool, self.conversation.mailbox_id, arguments)

    def use_permission(self, tool: str, arguments: str) -> str | None:
        """See StoreAdapter."""
        if not permissions.spend(self.conversation.agent, tool, self.conversation.mailbox_id, arguments):
            return "grant"
        return "deny" if self.get_permission(tool, arguments) == "deny" else None

    def set_permission(self, tool: str, decision: str, *, scope: str, arguments: str = "") -> None:
        """See StoreAdapter."""
        permissions.record(
            agent=self.conversation.agent,
            tool=tool,
            mailbox_id=self.conversation.mailbox_id,
            scope=scope,
            arguments=arguments,
            decision=decision,
        )


def _number(given: Any) -> int:
    """An item's or a task's id as the model may write it; one that cannot be is nobody's."""
    try:
        number = int(str(given).strip().lstrip("#"))
    except ValueError:
        return -1
    return number if 0 < number < 2**63 else -1


def _stored(item: Item) -> StoredItem:
    return StoredItem(
        item.pk,
        item.tag,
        item.request,
        item.response,
        item.status,
        item.outcome,
        item.blocking,
        item.asked,
        item.resolved_by,
        item.resolved_via,
        item.resolved_at,
        item.due_at,
    )
