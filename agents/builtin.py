"""The built-in tools, with the original's names and inputs. All are atomic: effect and journal row are one transaction."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from agents.declare import Tool, ToolContext, tool
from agents.stores.base import StoredTask


class Todo(BaseModel):
    """One task of the list."""

    model_config = ConfigDict(extra="forbid")

    content: str = Field(description="What is to be done, as an order: Ask the supplier.")
    activeForm: str = Field(description="The same while it is being done: Asking the supplier.")  # noqa: N815 (the contract's name)
    status: Literal["pending", "in_progress", "completed"]


@tool(name="glove_post_to_inbox", atomic=True)
def post_to_inbox(
    ctx: ToolContext,
    tag: Annotated[
        str, Field(description="What kind of request: letters, digits and _ . : / -, such as approval:refund.")
    ],
    request: Annotated[str, Field(description="The request in plain words, with everything that its reader needs.")],
    blocking: Annotated[
        bool, Field(description="True where you told the person that you wait for the answer.")
    ] = False,
    due_in_s: Annotated[float | None, Field(description="Seconds after which the request expires unanswered.")] = None,
) -> str:
    """Post a request that you cannot fulfil now to your inbox, and go on. The answer comes later, as mail, and wakes you."""
    item = ctx.store.add_inbox_item(tag=tag, request=request, blocking=blocking, due_in_s=due_in_s)
    if item.status == "resolved":
        return f"Posted as item {item.id}. Its answer was there already; you will read it as your next mail."
    return f"Posted as item {item.id}, pending. You will be woken with the answer as mail; do not post it again."


@tool(name="glove_update_inbox", atomic=True)
def update_inbox(
    ctx: ToolContext,
    id: Annotated[str, Field(description="The item's id.")],  # noqa: A002 (the contract's name)
    action: Annotated[Literal["withdraw"], Field(description="Take the request back.")],
    reason: Annotated[str, Field(description="Why, for staff.")] = "",
) -> str:
    """Withdraw one of your open inbox requests that no longer matters."""
    item = ctx.store.update_inbox_item(id, action=action, text=reason)
    return f"Item {item.id} is withdrawn."


@tool(name="glove_update_tasks", atomic=True)
def update_tasks(ctx: ToolContext, todos: list[Todo]) -> str:
    """Replace your task list, which the person sees beside the conversation. Give the whole list each time."""
    tasks = ctx.store.add_tasks([StoredTask(todo.content, todo.activeForm, todo.status) for todo in todos])
    return f"The list has {len(tasks)} tasks."


INBOX_TOOLS: tuple[Tool, ...] = (post_to_inbox, update_inbox)
TASK_TOOLS: tuple[Tool, ...] = (update_tasks,)
