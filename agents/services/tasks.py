"""The agent's task list: replaced as a whole, as the tool gives it."""

from collections.abc import Sequence

from django.db import transaction

from agents.errors import BadTasks
from agents.models import Task
from inbox import text

MAX_TASKS = 100


def replace_tasks(conversation_id: int, todos: Sequence[tuple[str, str, str]]) -> list[Task]:
    """The new list, each (content, activeForm, status). Raises BadTasks and the errors of text.check."""
    if len(todos) > MAX_TASKS or any(status not in Task.Status.values for *_, status in todos):
        raise BadTasks
    rows = [
        Task(
            conversation_id=conversation_id,
            position=position,
            content=text.check(content, what="content", limit=4000),
            active_form=text.clean(active_form, limit=4000),
            status=status,
        )
        for position, (content, active_form, status) in enumerate(todos)
    ]
    with transaction.atomic():
        # One writer: the conversation's turn, behind its fence. Locking the conversation here would break the lock order.
        Task.objects.filter(conversation_id=conversation_id).delete()
        return Task.objects.bulk_create(rows)


def set_status(conversation_id: int, task_id: int, status: str) -> None:
    """Move one task. Raises BadTasks where there is none, or no such status."""
    if status not in Task.Status.values:
        raise BadTasks
    if not Task.objects.filter(pk=task_id, conversation_id=conversation_id).update(status=status):
        raise BadTasks("There is no such task.")
