"""The inbox over HTTP. Parse, call, return: who may and what happens is decided in `inbox.services.answers`."""

from typing import Annotated, Any, Literal

from django.conf import settings
from django.db.models import Q
from ninja import Field, Query, Router, Schema, Status

from inbox import access
from inbox.errors import ItemNotFound
from inbox.http.auth import Call
from inbox.http.fields import Body, Id, PathId, Time
from inbox.http.paging import Page, Paging, cut, make_cursor, read_cursor
from inbox.models import Item
from inbox.pages import newest_items
from inbox.services import answers
from inbox.services.mailboxes import find_mailbox

router = Router(tags=["inbox"])
VIA = Item.Via.API


class ItemOut(Schema):
    """One request and its reply. While it is pending, `response` is empty, and `outcome` and the `resolved_` fields are null."""

    id: Id
    mailbox: str
    tag: str
    request: str
    response: str
    status: Literal["pending", "resolved", "consumed"]
    outcome: Literal["answered", "expired", "cancelled", "undeliverable", "withdrawn"] | None
    blocking: bool
    asked: bool = Field(description="False for mail that the agent did not ask for.")
    created_at: Time
    due_at: Time | None
    resolved_at: Time | None
    resolved_by: str | None
    resolved_via: Literal["admin", "api", "link", "webhook", "cron", "mesh", "deadline", "system"] | None
    consumed_at: Time | None

    @staticmethod
    def resolve_mailbox(item: Item) -> str:
        return item.mailbox.address

    @staticmethod
    def resolve_outcome(item: Item) -> str | None:
        return item.outcome or None

    @staticmethod
    def resolve_resolved_by(item: Item) -> str | None:
        return item.resolved_by or None

    @staticmethod
    def resolve_resolved_via(item: Item) -> str | None:
        return item.resolved_via or None


class ItemFilters(Schema):
    """Which items."""

    status: Literal["pending", "resolved", "consumed"] | None = None
    tag: str | None = Field(None, max_length=120, description="Exactly this tag.")
    mailbox: str | None = Field(None, max_length=200, description="The mailbox's address.")
    blocking: bool | None = None


class Drop(Body):
    """Mail that the agent did not ask for."""

    mailbox: str
    tag: str
    request: str
    response: str


class Answer(Body):
    """The reply, in plain words."""

    response: str


class Reason(Body):
    """Why there will be no answer; the agent reads it."""

    reason: str


class LinkWish(Body):
    """How long a link lives."""

    expires_in_s: int = Field(default=24 * 3600, description="Seconds until the link dies, from 60 to 30 days.")


class LinkOut(Schema):
    """A link; whoever has it may answer, in the name of its maker."""

    url: str
    expires_at: Time


@router.get("/items", response=Page[ItemOut], summary="List items, newest first")
def list_items(request: Call, paging: Paging, filters: Annotated[ItemFilters, Query(...)]) -> dict[str, Any]:
    request.auth.require("read")
    only = _fitting(filters)
    if paging.cursor is not None:
        only &= Q(pk__lt=read_cursor(paging.cursor, "items", 1)[0])
    found = newest_items(request.auth.user, only, paging.limit + 1, tag=filters.tag)
    return cut(found, paging, lambda page: make_cursor("items", page[-1].pk))


@router.get("/items/{id:item_id}", response=ItemOut, summary="One item")
def get_item(request: Call, item_id: PathId) -> Item:
    request.auth.require("read")
    item = access.visible_items(request.auth.user).select_related("mailbox").filter(pk=item_id).first()
    if item is None:
        raise ItemNotFound
    return item


@router.post("/items", response={201: ItemOut}, summary="Tell an agent something")
def drop_item(request: Call, mail: Drop) -> Status[Item]:
    request.auth.require("drop")
    item = answers.drop_as(request.auth.user, **mail.model_dump(), via=VIA)
    return Status(201, item)


@router.post("/items/{id:item_id}/resolve", response=ItemOut, summary="Answer a pending item")
def resolve_item(request: Call, item_id: PathId, answer: Answer) -> Item:
    request.auth.require("resolve")
    return answers.resolve_as(request.auth.user, item_id, answer.response, via=VIA)


@router.post("/items/{id:item_id}/cancel", response=ItemOut, summary="Close a pending item without an answer")
def cancel_item(request: Call, item_id: PathId, why: Reason) -> Item:
    request.auth.require("resolve")
    return answers.cancel_as(request.auth.user, item_id, why.reason, via=VIA)


@router.post("/items/{id:item_id}/link", response={201: LinkOut}, summary="Make a link that answers this item")
def link_item(request: Call, item_id: PathId, wish: LinkWish = LinkWish()) -> Status[dict[str, Any]]:
    request.auth.require("resolve")
    link, token = answers.make_link(request.auth.user, item_id, expires_in_s=wish.expires_in_s)
    return Status(201, {"url": f"{settings.PUBLIC_URL}/r/{token}", "expires_at": link.expires_at})


def _fitting(filters: ItemFilters) -> Q:
    only = Q(**filters.model_dump(exclude_none=True, exclude={"mailbox", "tag"}))
    if filters.mailbox is not None:
        mailbox = find_mailbox(filters.mailbox)
        only &= Q(mailbox=mailbox.pk if mailbox else None)
    return only
