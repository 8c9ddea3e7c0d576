"""Standing decisions about tools: granted for a mailbox, these arguments or any; for a whole agent by an act of its own."""

import datetime
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone

from agents import access, registry
from agents.admin.talk import pretty
from agents.models import Permission
from agents.services import permissions
from inbox import access as inbox_access
from inbox.admin.confirm import confirm
from inbox.admin.reader import Link, Panel
from inbox.admin.readonly import ReadOnlyAdmin, moment
from inbox.errors import InboxError
from inbox.services.mailboxes import find_mailbox

DECIDE, AGENT_WIDE = "agents.decide_permission", "agents.decide_permission_agent_wide"
LASTS = {"1": "1 hour", "24": "1 day", "168": "1 week", "720": "30 days", "": "until it is revoked"}


def marked_tools() -> list[tuple[str, str]]:
    """The tools that ask for a permission, as choices `agent:tool`."""
    return [
        (f"{agent.name}:{tool.name}", f"{agent.name}: {tool.name}")
        for agent in sorted(registry.agents.values(), key=lambda agent: agent.name)
        for tool in agent.tools
        if tool.permission
    ]


class AgentWideForm(forms.Form):
    """A decision for every mailbox of an agent."""

    tool = forms.ChoiceField(help_text="Tools that are declared with permission=True.")
    decision = forms.ChoiceField(choices=[("grant", "Grant it"), ("deny", "Deny it, whatever is granted elsewhere")])
    scope = forms.ChoiceField(
        label="For",
        choices=[(Permission.Scope.ARGUMENTS, "exactly these arguments"), (Permission.Scope.ANY, "any arguments")],
    )
    arguments = forms.CharField(
        required=False,
        max_length=20_000,
        widget=forms.Textarea({"rows": 5}),
        help_text='A JSON object, such as {"order_id": "17", "cents": 500}. Leave it empty for any arguments.',
    )
    lasts = forms.ChoiceField(label="How long", required=False, choices=list(LASTS.items()), initial="24")
    uses = forms.IntegerField(
        label="How often", required=False, min_value=1, max_value=1_000_000, help_text="Empty: no limit."
    )

    def __init__(self, user: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user
        self.fields["tool"].choices = marked_tools()

    def clean(self) -> dict[str, Any]:
        """No arguments is not any arguments, and any arguments are not some."""
        data = super().clean() or {}
        if data.get("scope") == Permission.Scope.ANY and data.get("arguments", "").strip():
            raise forms.ValidationError(
                "You wrote arguments and chose any arguments. Choose “exactly these”, or empty the box."
            )
        if data.get("scope") == Permission.Scope.ARGUMENTS and not data.get("arguments", "").strip():
            raise forms.ValidationError("Write the arguments that this is for; {} where the tool takes none.")
        return data

    def decision_made(self) -> dict[str, Any]:
        """What the service takes."""
        given = self.cleaned_data
        agent, _, tool = given["tool"].partition(":")
        hours = int(given["lasts"] or 0)
        return {
            "agent": agent,
            "tool": tool,
            "mailbox_id": None,
            "decision": given["decision"],
            "scope": given["scope"],
            "arguments": given["arguments"],
            "expires_at": timezone.now() + datetime.timedelta(hours=hours) if hours else None,
            "uses": given["uses"],
        }


class MailboxForm(AgentWideForm):
    """A decision for one mailbox."""

    mailbox = forms.CharField(max_length=200, help_text="The address for whose calls this is: concierge/ada.")
    field_order = ("tool", "mailbox", "decision", "scope", "arguments", "lasts", "uses")

    def clean_mailbox(self) -> Any:
        """The mailbox at this address, if this person may see it."""
        found = find_mailbox(self.cleaned_data["mailbox"])
        if found is None or not inbox_access.visible_mailboxes(self.user).filter(pk=found.pk).exists():
            raise forms.ValidationError("There is no mailbox at this address.")
        return found

    def clean(self) -> dict[str, Any]:
        """The mailbox belongs to the tool's agent."""
        data = super().clean()
        agent = data.get("tool", "").partition(":")[0]
        if "mailbox" in data and data["mailbox"].agent != agent:
            raise forms.ValidationError(f"This mailbox is read by {data['mailbox'].agent}, not by {agent}.")
        return data

    def decision_made(self) -> dict[str, Any]:
        return {**super().decision_made(), "mailbox_id": self.cleaned_data["mailbox"].pk}


@admin.register(Permission)
class PermissionAdmin(ReadOnlyAdmin):
    """What tools may do without being asked again."""

    list_display = [
        "tool",
        "agent",
        "where",
        "decision",
        "scope",
        "state",
        "decided_by",
        moment("decided_at", "decided"),
    ]
    list_filter = ["decision"]
    list_select_related = ["mailbox", "decided_by"]
    search_fields = ["tool", "mailbox__address"]
    change_list_template = "admin/agents/permissions.html"
    export_columns = {
        "id": lambda row: row.pk,
        "agent": lambda row: row.agent,
        "tool": lambda row: row.tool,
        "mailbox": lambda row: row.mailbox and row.mailbox.address,
        "decision": lambda row: row.decision,
        "scope": lambda row: row.scope,
        "arguments": lambda row: row.arguments,
        "uses": lambda row: row.uses,
        "expires_at": lambda row: row.expires_at,
        "decided_by": lambda row: row.decided_by and row.decided_by.get_username(),
        "decided_at": lambda row: row.decided_at,
        "revoked_at": lambda row: row.revoked_at,
    }

    @admin.display(description="Mailbox")
    def where(self, row: Permission) -> str:
        return row.mailbox.address if row.mailbox else "every mailbox of the agent"

    @admin.display(description="State")
    def state(self, row: Permission) -> str:
        if row.revoked_at:
            return "revoked"
        if row.expires_at and row.expires_at <= timezone.now():
            return "expired"
        return "used up" if row.uses == 0 else "standing"

    def visible(self, user: Any) -> QuerySet[Permission]:
        return access.visible_permissions(user).select_related("mailbox", "decided_by")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        user = request.user
        if not (user.has_perm("agents.view_permission") or user.has_perm(DECIDE)):
            return False
        return obj is None or self.visible(user).filter(pk=obj.pk).exists()

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(DECIDE)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        return super().changelist_view(request, {"may_decide_for_all": self._may_decide_for_all(request.user)})

    def facts(self, user: Any, row: Permission) -> list[tuple[str, Any]]:
        return [
            ("Tool", row.tool),
            ("Agent", row.agent),
            ("Mailbox", self.where(row)),
            ("Decision", row.decision),
            ("For", {"any": "any arguments", "arguments": "exactly these arguments", "call": "one call"}[row.scope]),
            ("State", self.state(row)),
            ("Uses left", "no limit" if row.uses is None else row.uses),
            ("Good until", row.expires_at or "it is revoked"),
            ("Decided by", row.decided_by.get_username() if row.decided_by else ""),
            ("Decided", row.decided_at),
            ("Revoked", row.revoked_at),
        ]

    def panels(self, user: Any, row: Permission) -> list[Panel]:
        if not row.arguments:
            return []
        return [Panel("These arguments", "admin/agents/arguments.html", {"arguments": pretty(row.arguments)})]

    def acts(self, request: HttpRequest, row: Permission) -> list[Link]:
        if row.revoked_at or not request.user.has_perm(DECIDE):
            return []
        return [Link("Revoke it…", reverse("admin:agents_permission_revoke", args=[row.pk]))]

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("agent-wide/", wrap(self.agent_wide), name="agents_permission_agent_wide"),
            path("<int:row_id>/revoke/", wrap(self.revoke), name="agents_permission_revoke"),
            *super().get_urls(),
        ]

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        return self.decide(request, MailboxForm, "Decide about a tool for one mailbox")

    def agent_wide(self, request: HttpRequest) -> HttpResponse:
        """Decide for every mailbox of an agent."""
        if not self._may_decide_for_all(request.user):
            raise PermissionDenied
        return self.decide(request, AgentWideForm, "Decide about a tool for every mailbox of its agent")

    def decide(self, request: HttpRequest, form_class: type[AgentWideForm], title: str) -> HttpResponse:
        """GET shows the form, filled in from the query string; POST records the decision."""
        if request.method not in ("GET", "HEAD", "POST"):
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        initial = {name: request.GET[name] for name in ("tool", "mailbox", "arguments") if name in request.GET}
        form = form_class(request.user, request.POST if request.method == "POST" else None, initial=initial)
        if form.is_bound and form.is_valid():
            try:
                made = permissions.grant(user=request.user, **form.decision_made())
            except InboxError as error:
                form.add_error(None, str(error))
            else:
                messages.success(request, f"Recorded: {made}.")
                return HttpResponseRedirect(reverse("admin:agents_permission_change", args=[made.pk]))
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": title,
            "form": form,
            "for_all": form_class is AgentWideForm,
        }
        return TemplateResponse(request, "admin/agents/decide.html", context, status=422 if form.errors else 200)

    def revoke(self, request: HttpRequest, row_id: int) -> HttpResponse:
        """End a standing decision."""
        if not request.user.has_perm(DECIDE):
            raise PermissionDenied
        row = self.visible(request.user).filter(pk=row_id).first()
        if row is None:
            raise Http404

        def act() -> str:
            permissions.revoke(row.pk, request.user)
            return f"Revoked: {row}."

        return confirm(
            request, self.admin_site, act=act, title=f"Revoke “{row}”?", button="Revoke it",
            question="From the next call on it counts no more.",
            back=reverse("admin:agents_permission_change", args=[row.pk]),
        )  # fmt: skip

    def _may_decide_for_all(self, user: Any) -> bool:
        return user.has_perm(DECIDE) and user.has_perm(AGENT_WIDE)
