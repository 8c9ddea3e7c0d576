"""What model calls take: one by one, summed by agent and day, and what staff allow beyond the budget."""

from decimal import Decimal
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_safe

from agents import access, registry
from agents.models import BudgetRaise, ModelCall
from agents.services import budgets, ledger
from inbox.admin.readonly import ReadOnlyAdmin, moment
from inbox.errors import InboxError

DAYS = 30


def money(micros: int) -> str:
    """Millionths of the currency, as people write it."""
    return f"{Decimal(micros) / 1_000_000:.4f}"


@admin.register(ModelCall)
class ModelCallAdmin(ReadOnlyAdmin):
    """Calls of models."""

    list_display = [
        "number",
        "agent",
        "model",
        "purpose",
        "tokens",
        "cost",
        "took",
        "ended",
        moment("created_at", "at"),
    ]
    list_filter = ["purpose"]
    search_fields = ["agent", "model"]
    change_list_template = "admin/agents/model_calls.html"
    export_columns = {
        "id": lambda row: row.pk,
        "conversation": lambda row: row.conversation_id,
        "turn": lambda row: row.turn_id,
        "agent": lambda row: row.agent,
        "day": lambda row: row.day,
        "model": lambda row: row.model,
        "purpose": lambda row: row.purpose,
        "attempt": lambda row: row.attempt,
        "input_tokens": lambda row: row.input_tokens,
        "output_tokens": lambda row: row.output_tokens,
        "cache_read_tokens": lambda row: row.cache_read_tokens,
        "cache_write_tokens": lambda row: row.cache_write_tokens,
        "cost_micros": lambda row: row.cost_micros,
        "duration_ms": lambda row: row.duration_ms,
        "stop_reason": lambda row: row.stop_reason,
        "error": lambda row: row.error,
        "created_at": lambda row: row.created_at,
    }

    @admin.display(description="Call")
    def number(self, row: ModelCall) -> str:
        return str(row.pk)

    @admin.display(description="Tokens in and out")
    def tokens(self, row: ModelCall) -> str:
        read = row.input_tokens + row.cache_read_tokens + row.cache_write_tokens
        return f"{read:,} / {row.output_tokens:,}"

    @admin.display(description="Cost")
    def cost(self, row: ModelCall) -> str:
        return money(row.cost_micros)

    @admin.display(description="Took")
    def took(self, row: ModelCall) -> str:
        return f"{row.duration_ms / 1000:.1f} s"

    @admin.display(description="Ended")
    def ended(self, row: ModelCall) -> str:
        return row.error or row.stop_reason

    def visible(self, user: Any) -> QuerySet[ModelCall]:
        return ModelCall.objects.filter(conversation__in=access.visible_conversations(user))

    def facts(self, user: Any, row: ModelCall) -> list[tuple[str, Any]]:
        return [
            ("Agent", row.agent),
            ("Conversation", row.conversation_id),
            ("Turn", row.turn_id),
            ("Model", row.model),
            ("For", row.purpose),
            ("Attempt", row.attempt),
            ("Tokens in, new", f"{row.input_tokens:,}"),
            ("Tokens in, read from the cache", f"{row.cache_read_tokens:,}"),
            ("Tokens in, written to the cache", f"{row.cache_write_tokens:,}"),
            ("Tokens out", f"{row.output_tokens:,}"),
            ("Cost", money(row.cost_micros)),
            ("Took", self.took(row)),
            ("Stop reason", row.stop_reason),
            ("Fault", row.error),
            ("At", row.created_at),
        ]

    def get_urls(self) -> list[URLPattern]:
        days = self.admin_site.admin_view(require_safe(self.days))
        return [path("days/", days, name="agents_modelcall_days"), *super().get_urls()]

    def days(self, request: HttpRequest) -> HttpResponse:
        """Each agent's sums of the last days."""
        if not self.has_view_permission(request) or not request.user.has_perm("agents.view_conversation"):
            raise PermissionDenied
        agents = [
            (name, _rows(ledger.days_of(ModelCall.objects.filter(agent=name))[:DAYS]))
            for name in sorted(registry.agents)
        ]
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": f"Usage by agent and day, the last {DAYS} days",
            "agents": agents,
        }
        return TemplateResponse(request, "admin/agents/days.html", context)


class RaiseForm(forms.Form):
    """More for today."""

    agent = forms.ChoiceField()
    conversation = forms.IntegerField(
        required=False, min_value=1, max_value=2**63 - 1, help_text="Its number. Empty: for the agent as a whole."
    )
    tokens = forms.IntegerField(required=False, min_value=0, max_value=10**12)
    money = forms.DecimalField(required=False, min_value=0, max_digits=12, decimal_places=4)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        agent: Any = self.fields["agent"]
        agent.choices = [(name, name) for name in sorted(registry.agents)]


@admin.register(BudgetRaise)
class BudgetRaiseAdmin(ReadOnlyAdmin):
    """What was allowed beyond the budget of a day. Afterwards a failed turn is tried again by hand."""

    list_display = ["agent", "conversation", "day", "tokens", "money", "raised_by", moment("created_at", "at")]
    list_select_related = ["raised_by", "conversation"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("agents.raise_budget")

    def facts(self, user: Any, row: BudgetRaise) -> list[tuple[str, Any]]:
        return [
            ("Agent", row.agent),
            ("Conversation", row.conversation_id or "every one of the agent"),
            ("Day (UTC)", str(row.day)),
            ("Tokens", f"{row.tokens:,}"),
            ("Money", row.money),
            ("Raised by", row.raised_by.get_username()),
            ("At", row.created_at),
        ]

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        if request.method not in ("GET", "HEAD", "POST"):
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        form = RaiseForm(request.POST if request.method == "POST" else None)
        if form.is_bound and form.is_valid():
            given = form.cleaned_data
            try:
                row = budgets.raise_budget(
                    request.user,
                    given["agent"],
                    conversation_id=given["conversation"],
                    tokens=given["tokens"] or 0,
                    money=given["money"] or Decimal(0),
                )
            except InboxError as error:
                form.add_error(None, str(error))
            else:
                messages.success(request, f"Raised for today: {row}. Failed turns can be tried again.")
                return HttpResponseRedirect(reverse("admin:agents_budgetraise_changelist"))
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Raise a budget for today (UTC)",
            "form": form,
            "button": "Raise it",
        }
        return TemplateResponse(request, "admin/agents/raise.html", context, status=422 if form.errors else 200)


def _rows(days: Any) -> list[dict[str, Any]]:
    return [{**day, "cost": money(day["cost_micros"])} for day in days]
