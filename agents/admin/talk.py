"""Messages as a template shows them: who said what, and its tool calls folded below it."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.db.models import Prefetch, QuerySet
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from agents import registry
from agents.models import Conversation, Message, ToolCall
from inbox.models import Item
from inbox.text import first_line

BEFORE, AFTER = 6, 4  # messages around a request
MAX_URL_ARGUMENTS = 1500
KINDS = {
    Message.Kind.INBOX: "mail, as the model reads it",
    Message.Kind.SUMMARY: "summary of what stands before it",
    Message.Kind.SKILL: "skill",
    Message.Kind.NOTICE: "notice",
}


class Said(NamedTuple):
    """One message. `grants` are the addresses at which its refused calls can be granted, by the call's id."""

    message: Message
    who: str
    what: str
    calls: list[ToolCall]
    here: bool = False
    grants: dict[int, str] = {}


class Gap(NamedTuple):
    """Messages that are not shown."""

    hidden: int


def messages_of(conversation: Conversation) -> QuerySet[Message]:
    """Its messages, with what a template needs of them."""
    calls = Prefetch("calls", ToolCall.objects.order_by("position"))
    return Message.objects.filter(conversation=conversation).select_related("author", "item").prefetch_related(calls)


def said(messages: Iterable[Message], *, agent: str, here: Item | None = None, grant_for: str = "") -> list[Said]:
    """The messages in words. `here` marks the one that asked for this item; `grant_for` is the mailbox for which this person
    may grant refused calls."""
    return [
        Said(
            message,
            _who(message, agent),
            KINDS.get(Message.Kind(message.kind), ""),
            list(message.calls.all()),
            here is not None and any(_posts(call, here) for call in message.calls.all()),
            _grants(message, agent, grant_for) if grant_for else {},
        )
        for message in messages
    ]


def around(conversation: Conversation, item: Item) -> list[Said | Gap]:
    """The messages up to the turn that posted the request, and the last ones since."""
    placed = messages_of(conversation).exclude(place=None)
    posted = Message.objects.filter(conversation=conversation, turn=item.posted_in or 0).exclude(place=None)
    if (at := posted.order_by("-place").values_list("place", flat=True).first()) is None:
        return list(said(reversed(placed.order_by("-place")[: BEFORE + AFTER]), agent=conversation.agent))
    near = placed.filter(place__lte=at).order_by("-place")[:BEFORE]
    later = list(reversed(placed.filter(place__gt=at).order_by("-place")[:AFTER]))
    shown: list[Said | Gap] = [*said(reversed(near), agent=conversation.agent, here=item)]
    if later and (between := (later[0].place or 0) - at - 1) > 0:
        shown.append(Gap(between))
    return [*shown, *said(later, agent=conversation.agent)]


def _posts(call: ToolCall, item: Item) -> bool:
    """Whether this call asked for the item by the built-in tool."""
    if call.name != "glove_post_to_inbox":
        return False
    try:
        given = json.loads(call.input)
    except ValueError:
        return False
    return isinstance(given, dict) and (given.get("tag"), given.get("request")) == (item.tag, item.request)


def _who(message: Message, agent: str) -> str:
    if message.sender == Message.Sender.AGENT:
        return agent
    if message.kind == Message.Kind.INBOX:
        return "Inbox"
    if message.kind != Message.Kind.MESSAGE:
        return "System"
    return message.author.get_username() if message.author else "User"


def _grants(message: Message, agent: str, mailbox: str) -> dict[int, str]:
    tools = registry.agents[agent].tools if agent in registry.agents else ()
    marked = {tool.name for tool in tools if tool.permission}
    denied = [call for call in message.calls.all() if call.status == ToolCall.Status.DENIED and call.name in marked]
    return {call.pk: grant_url(agent, call, mailbox) for call in denied if len(call.input) <= MAX_URL_ARGUMENTS}


def grant_url(agent: str, call: ToolCall, mailbox: str) -> str:
    """Where this very call can be granted."""
    given: dict[str, Any] = {"tool": f"{agent}:{call.name}", "mailbox": mailbox, "arguments": call.input}
    return f"{reverse('admin:agents_permission_add')}?{urlencode(given)}"


def pretty(text: str) -> str:
    """JSON with line breaks; other text as it is."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def conversation_name(conversation: Conversation) -> str:
    """`conversation 12 “Beans”`."""
    title = first_line(conversation.title, 60)
    return f"conversation {conversation.pk}" + (f" “{title}”" if title else "")


def conversation_link(user: Any, conversation: Conversation) -> SafeString | str:
    """Its name, which leads to its page for whoever may open it."""
    name = conversation_name(conversation)
    if not user.has_perm("agents.view_conversation"):
        return name
    return format_html('<a href="{}">{}</a>', reverse("admin:agents_conversation_change", args=[conversation.pk]), name)
