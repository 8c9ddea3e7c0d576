"""Agents over HTTP: parse, call, return. Who may see and write is decided in `agents.access`, what happens in the services."""

from typing import Annotated, Any

from ninja import Query, Router, Status

from agents import access, registry
from agents.api_schemas import (
    AgentOut,
    ConversationOut,
    Days,
    MessageOut,
    OpenConversation,
    PermissionOut,
    QueuedOut,
    Say,
    TaskOut,
    TurnOut,
    UsageDay,
)
from agents.errors import ConversationNotFound, PermissionNotFound
from agents.models import Conversation, ModelCall, Permission, Turn
from agents.services import conversations, ledger, permissions
from agents.transcript import messages_after, reached
from inbox.errors import NotAllowed
from inbox.http.auth import Call
from inbox.http.fields import PathId
from inbox.http.paging import Page, Paging, by_position, cut, make_cursor, newest_first, read_cursor

router = Router(tags=["agents"])


@router.get("/agents", response=Page[AgentOut], summary="The declared agents")
def list_agents(request: Call, paging: Paging) -> dict[str, Any]:
    request.auth.require("read")
    return by_position([registry.agents[name] for name in sorted(registry.agents)], paging, "agents")


@router.get("/agents/{name}/usage", response=Page[UsageDay], summary="An agent's tokens and cost by day, newest first")
def agent_usage(request: Call, name: str, wish: Annotated[Days, Query(...)]) -> dict[str, Any]:
    """For whoever may see every conversation and the calls of models."""
    request.auth.require("read")
    registry.get_agent(name)
    if not access.may_see_usage(request.auth.user):
        raise NotAllowed(
            "You need the permissions agents.view_conversation and agents.view_modelcall to see what agents use."
        )
    return by_position(ledger.days_of(ModelCall.objects.filter(agent=name))[: wish.days], wish, "usage")


# --- Conversations


@router.post("/conversations", response={201: ConversationOut}, summary="Open a conversation")
def open_conversation(request: Call, wish: OpenConversation) -> Status[Conversation]:
    request.auth.require("converse")
    free = request.auth.has_right("mailboxes", "inbox.mailboxes")
    opened = conversations.open_for(
        request.auth.user, wish.agent, mailbox=wish.mailbox, title=wish.title, free_addresses=free
    )
    return Status(201, opened)


@router.get("/conversations", response=Page[ConversationOut], summary="List conversations, newest first")
def list_conversations(request: Call, paging: Paging) -> dict[str, Any]:
    request.auth.require("read")
    rows = access.visible_conversations(request.auth.user).select_related("mailbox")
    return newest_first(rows, paging, "conversations")


@router.get("/conversations/{id:conversation_id}", response=ConversationOut, summary="One conversation")
def get_conversation(request: Call, conversation_id: PathId) -> Conversation:
    return _seen(request, conversation_id)


@router.post("/conversations/{id:conversation_id}/close", response=ConversationOut, summary="Close a conversation")
def close_conversation(request: Call, conversation_id: PathId) -> Conversation:
    return conversations.close(_written(request, conversation_id))


@router.post("/conversations/{id:conversation_id}/cancel", response=TurnOut, summary="Cancel the open turn")
def cancel_turn(request: Call, conversation_id: PathId) -> Turn:
    return conversations.cancel(_written(request, conversation_id))


@router.post("/conversations/{id:conversation_id}/retry", response=TurnOut, summary="Try the failed turn again")
def retry_turn(request: Call, conversation_id: PathId) -> Turn:
    return conversations.retry(_written(request, conversation_id))


@router.post(
    "/conversations/{id:conversation_id}/messages", response={202: QueuedOut}, summary="Write to the agent, and wake it"
)
def say(request: Call, conversation_id: PathId, message: Say) -> Status[dict[str, Any]]:
    said = conversations.say(_written(request, conversation_id), message.text, author=request.auth.user)
    return Status(202, {"id": said.pk, "conversation": said.conversation_id, "status": "queued"})


@router.get(
    "/conversations/{id:conversation_id}/messages", response=Page[MessageOut], summary="The history, oldest first"
)
def list_messages(request: Call, conversation_id: PathId, paging: Paging) -> dict[str, Any]:
    conversation = _seen(request, conversation_id)
    place, queued = read_cursor(paging.cursor, "messages", 2) if paging.cursor is not None else (0, 0)
    found = messages_after(conversation.pk, place, queued, paging.limit + 1)
    return cut(found, paging, lambda page: make_cursor("messages", *reached(page, place, queued)))


@router.get("/conversations/{id:conversation_id}/turns", response=Page[TurnOut], summary="Turns, newest first")
def list_turns(request: Call, conversation_id: PathId, paging: Paging) -> dict[str, Any]:
    return newest_first(_seen(request, conversation_id).turns.all(), paging, "turns")


@router.get(
    "/conversations/{id:conversation_id}/usage",
    response=Page[UsageDay],
    summary="The conversation's tokens and cost by day, newest first",
)
def conversation_usage(request: Call, conversation_id: PathId, wish: Annotated[Days, Query(...)]) -> dict[str, Any]:
    calls = ModelCall.objects.filter(conversation=_seen(request, conversation_id))
    return by_position(ledger.days_of(calls)[: wish.days], wish, "usage")


@router.get("/conversations/{id:conversation_id}/tasks", response=Page[TaskOut], summary="The agent's task list")
def list_tasks(request: Call, conversation_id: PathId, paging: Paging) -> dict[str, Any]:
    return by_position(_seen(request, conversation_id).tasks.all(), paging, "tasks")


# --- Permissions


@router.get("/permissions", response=Page[PermissionOut], summary="Standing decisions about tools, newest first")
def list_permissions(request: Call, paging: Paging) -> dict[str, Any]:
    request.auth.require("read")
    rows = access.visible_permissions(request.auth.user).select_related("mailbox", "decided_by")
    return newest_first(rows, paging, "permissions")


@router.post("/permissions/{id:permission_id}/revoke", response=PermissionOut, summary="End a standing decision")
def revoke_permission(request: Call, permission_id: PathId) -> Permission:
    request.auth.require("permissions")
    if not access.visible_permissions(request.auth.user).filter(pk=permission_id).exists():
        raise PermissionNotFound
    return permissions.revoke(permission_id, request.auth.user)


def _seen(request: Call, conversation_id: int) -> Conversation:
    """The conversation for a reader, or ConversationNotFound."""
    request.auth.require("read")
    return _visible(request, conversation_id)


def _written(request: Call, conversation_id: int) -> int:
    """The conversation for a writer; NotAllowed for one who may only see it."""
    request.auth.require("converse")
    conversation = _visible(request, conversation_id)
    if not access.may_write(request.auth.user, conversation):
        raise NotAllowed(
            "You may see this conversation, but only its owner, or a holder of agents.change_conversation, may do this."
        )
    return conversation.pk


def _visible(request: Call, conversation_id: int) -> Conversation:
    rows = access.visible_conversations(request.auth.user).select_related("mailbox")
    conversation = rows.filter(pk=conversation_id).first()
    if conversation is None:
        raise ConversationNotFound
    return conversation
