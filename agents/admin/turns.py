"""Turns: their steps, what they used, and what went wrong."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString

from agents import access
from agents.admin import talk
from agents.admin.filters import LeftFilter, TurnAgentFilter
from agents.models import Conversation, Turn
from inbox.admin.reader import Link, Panel
from inbox.admin.readonly import ReadOnlyAdmin, moment
from inbox.templatetags.desk import inline, one_line

OPEN = (Turn.Status.QUEUED, Turn.Status.RUNNING, Turn.Status.WAITING)
AGAIN = (Turn.Status.FAILED, Turn.Status.CANCELLED)


def newest(conversation_id: int) -> Turn | None:
    """The turn that can be stopped or tried again."""
    return Turn.objects.filter(conversation=conversation_id).order_by("-pk").first()


def turn_acts(turn: Turn) -> list[Link]:
    """What may be done about this turn of an open conversation: stop it while it is open, try it again if it is the newest."""
    if turn.status in OPEN:
        return [Link("Stop its turn…", reverse("admin:agents_conversation_cancel", args=[turn.conversation_id]))]
    if turn.status in AGAIN and turn == newest(turn.conversation_id):
        return [Link("Try again…", reverse("admin:agents_conversation_retry", args=[turn.conversation_id]))]
    return []


@admin.register(Turn)
class TurnAdmin(ReadOnlyAdmin):
    """Runs of the agent loop."""

    list_display = [
        "number",
        "status",
        "why",
        "about",
        "tokens",
        moment("created_at", "queued"),
        moment("finished_at", "ended"),
    ]
    list_filter = ["status", LeftFilter, TurnAgentFilter]
    list_select_related = ["conversation"]
    export_columns = {
        "id": lambda row: row.pk,
        "conversation": lambda row: row.conversation_id,
        "status": lambda row: row.status,
        "reason": lambda row: row.reason,
        "error": lambda row: row.error,
        "attempts": lambda row: row.attempts,
        "model_calls": lambda row: row.model_calls,
        "input_tokens": lambda row: row.input_tokens,
        "output_tokens": lambda row: row.output_tokens,
        "created_at": lambda row: row.created_at,
        "started_at": lambda row: row.started_at,
        "finished_at": lambda row: row.finished_at,
    }

    @admin.display(description="Turn")
    def number(self, row: Turn) -> str:
        return str(row.pk)

    @admin.display(description="Reason")
    def why(self, row: Turn) -> SafeString:
        return inline(row.reason or row.error[:80] or "–")

    @admin.display(description="Conversation", ordering="conversation")
    def about(self, row: Turn) -> SafeString:
        return one_line(str(row.conversation), 40)

    @admin.display(description="Tokens in and out")
    def tokens(self, row: Turn) -> str:
        return f"{row.input_tokens:,} / {row.output_tokens:,}"

    def visible(self, user: Any) -> QuerySet[Turn]:
        return Turn.objects.filter(conversation__in=access.visible_conversations(user)).select_related(
            "conversation__mailbox"
        )

    def facts(self, user: Any, row: Turn) -> list[tuple[str, Any]]:
        return [
            ("State", row.status),
            ("Reason", row.reason),
            ("Conversation", talk.conversation_link(user, row.conversation)),
            ("Queued", row.created_at),
            ("Began", row.started_at),
            ("Ended", row.finished_at),
            ("Not before", row.not_before if row.status == Turn.Status.QUEUED else None),
            ("Model calls", row.model_calls),
            ("Tokens in", f"{row.input_tokens:,}"),
            ("Tokens out", f"{row.output_tokens:,}"),
            ("Compactions", row.compactions),
            ("Lapsed leases since progress", row.attempts),
            ("Faults of the model in a row", row.backoffs),
        ]

    def panels(self, user: Any, row: Turn) -> list[Panel]:
        messages = talk.messages_of(row.conversation).filter(turn=row).order_by("place")
        steps = {"parts": talk.said(messages, agent=row.conversation.agent)}
        trouble = [Panel("What went wrong", "admin/inbox/error.html", {"error": row.error})] if row.error else []
        return [*trouble, Panel("Its steps", "admin/agents/steps.html", steps)]

    def acts(self, request: HttpRequest, row: Turn) -> list[Link]:
        if not access.may_write(request.user, row.conversation) or not request.user.has_perm(
            "agents.view_conversation"
        ):
            return []
        return [] if row.conversation.status == Conversation.Status.CLOSED else turn_acts(row)
