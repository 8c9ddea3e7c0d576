"""Conversations: the transcript as the model saw it."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from agents import access
from agents.admin import talk, turns
from agents.admin.filters import AgentFilter
from agents.models import Conversation, Task, Turn
from agents.services import desk
from inbox.admin.confirm import confirm
from inbox.admin.reader import Link, Panel
from inbox.admin.readonly import ReadOnlyAdmin, moment
from inbox.templatetags.desk import inline, one_line

PAGE = 100
TURNS = 10
AGAIN = (
    "A new turn answers what no model has answered. Finished tool calls keep their results. Limits are as they were, and so are "
    "budgets that nobody raised: what stopped a turn may stop it again."
)


@admin.register(Conversation)
class ConversationAdmin(ReadOnlyAdmin):
    """Histories between agents and whom they serve."""

    list_display = ["number", "name", "agent", "mailbox", "status", moment("created_at", "opened")]
    list_filter = ["status", AgentFilter]
    list_select_related = ["mailbox"]
    search_fields = ["title", "mailbox__address"]
    show_template = "admin/agents/conversation.html"
    export_columns = {
        "id": lambda row: row.pk,
        "agent": lambda row: row.agent,
        "mailbox": lambda row: row.mailbox.address,
        "title": lambda row: row.title,
        "status": lambda row: row.status,
        "input_tokens": lambda row: row.input_tokens,
        "output_tokens": lambda row: row.output_tokens,
        "created_at": lambda row: row.created_at,
        "closed_at": lambda row: row.closed_at,
    }

    @admin.display(description="Conversation")
    def number(self, row: Conversation) -> str:
        return f"{row.pk}"

    @admin.display(description="Title")
    def name(self, row: Conversation) -> SafeString:
        return inline(row.title or "–")

    def visible(self, user: Any) -> QuerySet[Conversation]:
        return access.visible_conversations(user).select_related("mailbox__owner")

    def facts(self, user: Any, row: Conversation) -> list[tuple[str, Any]]:
        return [
            ("Title", row.title),
            ("Agent", row.agent),
            ("Mailbox", row.mailbox.address),
            ("State", row.status),
            ("Opened", row.created_at),
            ("Closed", row.closed_at),
            ("Tokens in", f"{row.input_tokens:,}"),
            ("Tokens out", f"{row.output_tokens:,}"),
            ("Size of the last prompt", f"{row.context_tokens:,} tokens"),
        ]

    def panels(self, user: Any, row: Conversation) -> list[Panel]:
        tasks = Task.objects.filter(conversation=row)
        turns = (
            Turn.objects.filter(conversation=row).order_by("-pk")[:TURNS] if user.has_perm("agents.view_turn") else []
        )
        return [
            Panel("Its tasks", "admin/agents/tasks.html", {"tasks": tasks}),
            Panel("Its last turns", "admin/agents/turn_list.html", {"turns": turns}),
        ]

    def acts(self, request: HttpRequest, row: Conversation) -> list[Link]:
        if not access.may_write(request.user, row) or row.status != Conversation.Status.OPEN:
            return []
        last = turns.newest(row.pk)
        close = Link("Close it…", reverse("admin:agents_conversation_close", args=[row.pk]))
        return [*(turns.turn_acts(last) if last else []), close]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        response: Any = super().change_view(request, object_id, form_url, extra_context)
        if context := getattr(response, "context_data", None):
            context.update(self.transcript(request, context["row"]))
        return response

    def transcript(self, request: HttpRequest, row: Conversation) -> dict[str, Any]:
        """A page of its messages, the last ones first asked for, each page oldest first; and those that no turn has received."""
        placed = talk.messages_of(row).exclude(place=None)
        before = request.GET.get("before", "")
        if before.isdecimal() and len(before) < 10:
            placed = placed.filter(place__lt=int(before))
        found = list(placed.order_by("-place")[: PAGE + 1])
        shown = list(reversed(found[:PAGE]))
        waiting = [] if before else list(talk.messages_of(row).filter(place=None).order_by("pk")[:PAGE])
        grant_for = row.mailbox.address if request.user.has_perm("agents.decide_permission") else ""
        return {
            "said": talk.said(shown, agent=row.agent, grant_for=grant_for),
            "waiting": talk.said(waiting, agent=row.agent),
            "earlier": f"?before={shown[0].place}" if len(found) > PAGE else "",
            "is_later": bool(before),
        }

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("<int:row_id>/close/", wrap(self.close), name="agents_conversation_close"),
            path("<int:row_id>/retry/", wrap(self.retry), name="agents_conversation_retry"),
            path("<int:row_id>/cancel/", wrap(self.cancel), name="agents_conversation_cancel"),
            *super().get_urls(),
        ]

    def writable(self, request: HttpRequest, row_id: int) -> Conversation:
        """The conversation, for whoever may act in it."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        row = self.visible(request.user).filter(pk=row_id).first()
        if row is None:
            raise Http404
        if not access.may_write(request.user, row):
            raise PermissionDenied
        return row

    def close(self, request: HttpRequest, row_id: int) -> HttpResponse:
        """Close the conversation."""
        row = self.writable(request, row_id)

        def act() -> str:
            desk.close_as(request.user, row.pk)
            return f"Conversation {row.pk} is closed."

        return confirm(
            request, self.admin_site, act=act, title=f"Close conversation {row.pk}?", button="Close it",
            question="Its turn stops; what is unread, and answers that are still to come, go to the mailbox's next reader.",
            back=reverse("admin:agents_conversation_change", args=[row.pk]),
        )  # fmt: skip

    def retry(self, request: HttpRequest, row_id: int) -> HttpResponse:
        """Try a failed turn again."""
        row = self.writable(request, row_id)
        last = turns.newest(row.pk)
        ended = last if last and last.status in turns.AGAIN else None
        what = f"turn {ended.pk} of conversation {row.pk}" if ended else f"conversation {row.pk}"
        why = _ending(ended) if ended and request.user.has_perm("agents.view_turn") else ""

        def act() -> str:
            return f"Tried again as turn {desk.retry_as(request.user, row.pk).pk}."

        return confirm(
            request, self.admin_site, act=act, title=f"Try {what} again?", button="Try again",
            question=format_html("{}{}", why, AGAIN),
            back=reverse("admin:agents_conversation_change", args=[row.pk]),
        )  # fmt: skip

    def cancel(self, request: HttpRequest, row_id: int) -> HttpResponse:
        """Stop the open turn."""
        row = self.writable(request, row_id)

        def act() -> str:
            return f"Turn {desk.cancel_as(request.user, row.pk).pk} is cancelled."

        return confirm(
            request, self.admin_site, act=act, title=f"Stop the turn of conversation {row.pk}?", button="Stop it",
            question="It stops at its next step. Tool calls that are running count as unknown.",
            back=reverse("admin:agents_conversation_change", args=[row.pk]),
        )  # fmt: skip


def _ending(turn: Turn) -> SafeString:
    """How this turn ended, as sentences."""
    how = "It failed" if turn.status == Turn.Status.FAILED else "It was cancelled"
    reason = f" ({turn.reason})" if turn.reason not in ("", turn.status) else ""
    return format_html("{}{}. {} ", how, inline(reason), one_line(turn.error, 300))
