"""Standing decisions about tools: granted for a mailbox, these arguments or any; for a whole agent by an act of its own."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone

from agents import access
from agents.admin.deciding import AgentWideForm, MailboxForm
from agents.admin.talk import pretty
from agents.models import Permission
from agents.services import permissions
from inbox.admin.confirm import confirm
from inbox.admin.reader import Link, Panel
from inbox.admin.readonly import ReadOnlyAdmin, moment
from inbox.errors import InboxError

DECIDE, AGENT_WIDE = "agents.decide_permission", "agents.decide_permission_agent_wide"


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
