"""What the agents' routes take and give."""

import datetime
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal

from ninja import Field, Schema

from agents.models import Conversation, Message, Permission, ToolCall, Turn
from inbox.http.fields import Body, Id, Time
from inbox.http.paging import PageQuery

MAX_DAYS = 366
# By the reason, what stands in place of an exception's own words.
IN_PLACE_OF = {
    "error": "Something went wrong that nobody foresaw. Staff can see what it was.",
    "database": "The database did not answer. It is asked again.",
}


class OpenConversation(Body):
    """A new conversation."""

    agent: str = Field(description="A declared agent's name.")
    mailbox: str | None = Field(None, description="Default: `<agent>/<username>`. You may name others below it.")
    title: str = ""


class Say(Body):
    """A message to the agent."""

    text: str


class Usage(Schema):
    """Tokens of the model so far."""

    input_tokens: int
    output_tokens: int


class UsageDay(Schema):
    """What the calls of models took on one day, in UTC. The kinds of tokens that went in do not overlap."""

    day: datetime.date
    calls: int
    failed: int = Field(description="Calls that gave no reply.")
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost: str = Field(description="In the currency of AGENT_PRICES, with six decimals.", pattern=r"^[0-9]+\.[0-9]{6}$")

    @staticmethod
    def resolve_cost(day: dict[str, Any]) -> str:
        return f"{Decimal(day['cost_micros']) / 1_000_000:.6f}"


class Days(PageQuery):
    """How far back, and which page of it."""

    days: int = Field(30, ge=1, le=MAX_DAYS, description="So many days at most, of those that have calls.")


class AgentOut(Schema):
    """A declared agent."""

    name: str
    description: str
    capabilities: list[str]
    tools: list[str] = Field(description="The names of its own tools.")

    @staticmethod
    def resolve_capabilities(agent: Any) -> Sequence[str]:
        return list(agent.capabilities)

    @staticmethod
    def resolve_tools(agent: Any) -> list[str]:
        return [tool.name for tool in agent.tools]


class ConversationOut(Schema):
    """A conversation between an agent and whoever it serves, on one mailbox."""

    id: Id
    agent: str
    mailbox: str
    title: str
    status: Literal["open", "closed"]
    created_at: Time
    usage: Usage

    @staticmethod
    def resolve_mailbox(conversation: Conversation) -> str:
        return conversation.mailbox.address

    @staticmethod
    def resolve_usage(conversation: Conversation) -> dict[str, int]:
        return _usage(conversation)


class QueuedOut(Schema):
    """A message that waits for the agent's next turn."""

    id: Id
    conversation: Id
    status: Literal["queued"]


class ToolCallOut(Schema):
    """A call that the model asked for. `input` is its arguments; `result` is empty until there is one."""

    id: Id
    name: str
    input: Any
    status: Literal["pending", "running", "waiting", "deferred", "done", "failed", "denied", "aborted", "unknown"]
    result: str

    @staticmethod
    def resolve_input(call: ToolCall) -> Any:
        try:
            return json.loads(call.input)
        except ValueError:  # an input that was cut off is kept as it came, and never ran
            return call.input


class MessageOut(Schema):
    """One entry of the history. `turn` is null while the message waits to be received."""

    id: Id
    sender: Literal["user", "agent"]
    kind: Literal["message", "inbox", "summary", "skill", "notice"]
    text: str
    tool_calls: list[ToolCallOut]
    created_at: Time
    turn: Id | None

    @staticmethod
    def resolve_tool_calls(message: Message) -> list[ToolCall]:
        return list(message.calls.all())

    @staticmethod
    def resolve_turn(message: Message) -> int | None:
        return message.turn_id


class TurnOut(Schema):
    """One run of the agent. `reason` and `error` say why it waits, failed or was cancelled. The words of an exception (reasons
    `error` and `database`) are for staff, in the admin: they may hold what is not for the conversation's owner."""

    id: Id
    status: Literal["queued", "running", "waiting", "done", "failed", "cancelled"]
    reason: str
    attempts: int
    usage: Usage
    error: str
    created_at: Time
    started_at: Time | None
    finished_at: Time | None

    @staticmethod
    def resolve_usage(turn: Turn) -> dict[str, int]:
        return _usage(turn)

    @staticmethod
    def resolve_error(turn: Turn) -> str:
        return IN_PLACE_OF.get(turn.reason, turn.error)


class TaskOut(Schema):
    """One entry of the agent's task list."""

    id: Id
    content: str
    activeForm: str = Field(validation_alias="active_form")  # noqa: N815  the name that the original's tool uses
    status: Literal["pending", "in_progress", "completed"]


class PermissionOut(Schema):
    """A standing decision. `mailbox` null: every mailbox of the agent. `arguments` null: any."""

    id: Id
    agent: str
    tool: str
    mailbox: str | None
    decision: Literal["grant", "deny"]
    scope: Literal["call", "arguments", "any"]
    arguments: Any
    uses: int | None
    expires_at: Time | None
    decided_by: str | None
    decided_at: Time
    revoked_at: Time | None

    @staticmethod
    def resolve_mailbox(permission: Permission) -> str | None:
        return permission.mailbox.address if permission.mailbox else None

    @staticmethod
    def resolve_arguments(permission: Permission) -> Any:
        return json.loads(permission.arguments) if permission.arguments else None

    @staticmethod
    def resolve_decided_by(permission: Permission) -> str | None:
        return permission.decided_by.get_username() if permission.decided_by else None


def _usage(row: Conversation | Turn) -> dict[str, int]:
    return {"input_tokens": row.input_tokens, "output_tokens": row.output_tokens}
