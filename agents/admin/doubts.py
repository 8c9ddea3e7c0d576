"""Tool calls, above all those in doubt: staff record what really happened, and the agent reads it as mail."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from agents import access
from agents.admin.talk import conversation_link, pretty
from agents.models import ToolCall
from agents.services import doubts
from inbox.admin.reader import Link, Panel
from inbox.admin.readonly import ReadOnlyAdmin, moment
from inbox.errors import InboxError
from inbox.templatetags.desk import inline, one_line

RECORD = "agents.record_outcome"


class DoubtFilter(admin.SimpleListFilter):
    """What needs somebody to look comes first: everything else is a click away."""

    title = "outcome"
    parameter_name = "outcome"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("recorded", "Was in doubt, recorded"), ("failed", "Failed or refused"), ("all", "All calls")]

    def choices(self, changelist: Any) -> Any:
        first, *others = super().choices(changelist)
        return [{**first, "display": "In doubt"}, *others]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ToolCall]) -> QuerySet[ToolCall]:
        match self.value():
            case None:
                return queryset.filter(status=ToolCall.Status.UNKNOWN, recorded_at=None)
            case "recorded":
                return queryset.exclude(recorded_at=None)
            case "failed":
                return queryset.filter(status__in=[ToolCall.Status.FAILED, ToolCall.Status.DENIED])
        return queryset


class RecordForm(forms.Form):
    """What really happened."""

    what = forms.CharField(
        label="What really happened",
        max_length=60_000,
        widget=forms.Textarea({"rows": 6}),
        help_text="The agent reads exactly these words, as mail. Whether it happened, and with what result.",
    )


@admin.register(ToolCall)
class ToolCallAdmin(ReadOnlyAdmin):
    """Calls of tools. One whose worker died while it ran is in doubt, until somebody says what became of it."""

    list_display = ["number", "name", moment("started_at", "began"), "where", "arguments", "status", "known"]
    list_filter = [DoubtFilter]
    list_select_related = ["turn__conversation__mailbox"]
    search_fields = ["name"]
    show_template = "admin/agents/call.html"
    export_columns = {
        "id": lambda row: row.pk,
        "tool": lambda row: row.name,
        "conversation": lambda row: row.turn.conversation_id,
        "turn": lambda row: row.turn_id,
        "input": lambda row: row.input,
        "status": lambda row: row.status,
        "result": lambda row: row.result,
        "recorded": lambda row: row.recorded,
        "recorded_by": lambda row: row.recorded_by,
        "started_at": lambda row: row.started_at,
        "finished_at": lambda row: row.finished_at,
    }

    @admin.display(description="Call")
    def number(self, row: ToolCall) -> str:
        return str(row.pk)

    @admin.display(description="Mailbox")
    def where(self, row: ToolCall) -> SafeString:
        return inline(row.turn.conversation.mailbox.address)

    @admin.display(description="With")
    def arguments(self, row: ToolCall) -> SafeString:
        return one_line(row.input, 40)

    @admin.display(description="What became of it")
    def known(self, row: ToolCall) -> SafeString | str:
        if row.status != ToolCall.Status.UNKNOWN:
            return "–"
        return one_line(row.recorded) if row.recorded_at else "nobody knows yet"

    def visible(self, user: Any) -> QuerySet[ToolCall]:
        rows = ToolCall.objects.select_related("turn__conversation__mailbox")
        return rows.filter(turn__conversation__in=access.visible_conversations(user))

    def title_of(self, row: ToolCall) -> str:
        return f"Call {row.pk} of {row.name}"

    def facts(self, user: Any, row: ToolCall) -> list[tuple[str, Any]]:
        turn = format_html('<a href="{}">{}</a>', reverse("admin:agents_turn_change", args=[row.turn_id]), row.turn_id)
        return [
            ("Tool", row.name),
            ("Agent", row.turn.conversation.agent),
            ("Mailbox", row.turn.conversation.mailbox.address),
            ("Conversation", conversation_link(user, row.turn.conversation)),
            ("Turn", turn if user.has_perm("agents.view_turn") else row.turn_id),
            ("State", "in doubt" if row.in_doubt else row.status),
            ("Began", row.started_at),
            ("Unknown since" if row.status == ToolCall.Status.UNKNOWN else "Ended", row.finished_at),
            ("Recorded by", row.recorded_by),
            ("Recorded", row.recorded_at),
        ]

    def panels(self, user: Any, row: ToolCall) -> list[Panel]:
        found = [Panel("Its arguments", "admin/agents/arguments.html", {"arguments": pretty(row.input)})]
        for title, text in (("What the model was told", row.result), ("What really happened", row.recorded)):
            if text:
                found.append(Panel(title, "admin/agents/arguments.html", {"arguments": text}))
        return found

    def acts(self, request: HttpRequest, row: ToolCall) -> list[Link]:
        if not row.in_doubt or not request.user.has_perm(RECORD):
            return []
        return [Link("Record what really happened…", reverse("admin:agents_toolcall_record", args=[row.pk]))]

    def get_urls(self) -> list[URLPattern]:
        record = path("<int:row_id>/record/", self.admin_site.admin_view(self.record), name="agents_toolcall_record")
        return [record, *super().get_urls()]

    def record(self, request: HttpRequest, row_id: int) -> HttpResponse:
        """GET asks what happened, POST records it, once."""
        if not self.has_view_permission(request) or not request.user.has_perm(RECORD):
            raise PermissionDenied
        row = self.visible(request.user).filter(pk=row_id).first()
        if row is None:
            raise Http404
        if request.method not in ("GET", "HEAD", "POST"):
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        form = RecordForm(request.POST if request.method == "POST" else None)
        if form.is_bound and form.is_valid():
            try:
                doubts.record(row.pk, form.cleaned_data["what"], user=request.user)
            except InboxError as error:
                form.add_error(None, str(error))
            else:
                messages.success(request, "Recorded. The agent reads it as mail.")
                return HttpResponseRedirect(reverse("admin:agents_toolcall_change", args=[row.pk]))
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": f"What became of call {row.pk} of {row.name}?",
            "row": row,
            "given": pretty(row.input),
            "form": form,
        }
        return TemplateResponse(request, "admin/agents/record.html", context, status=422 if form.errors else 200)
