"""Requests in the admin: the queue in place of the list, the answer page in place of the form, and nothing that edits a row."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods, require_safe

from inbox import access
from inbox.admin import answer, bulk, drop, exports, queue
from inbox.admin.look import Look
from inbox.admin.readonly import ReadOnlyAdmin
from inbox.models import Item

COLUMNS: exports.Columns = {
    "id": lambda item: item.pk,
    "mailbox": lambda item: item.mailbox.address,
    "agent": lambda item: item.mailbox.agent,
    "tag": lambda item: item.tag,
    "request": lambda item: item.request,
    "response": lambda item: item.response,
    "status": lambda item: item.status,
    "outcome": lambda item: item.outcome,
    "blocking": lambda item: item.blocking,
    "asked": lambda item: item.asked,
    "created_at": lambda item: item.created_at,
    "due_at": lambda item: item.due_at,
    "resolved_at": lambda item: item.resolved_at,
    "resolved_by": lambda item: item.resolved_by,
    "resolved_via": lambda item: item.resolved_via,
    "consumed_at": lambda item: item.consumed_at,
}


@admin.register(Item)
class ItemAdmin(ReadOnlyAdmin):
    """The desk."""

    export_columns = COLUMNS
    search_fields = ["tag"]  # for the admin's own look-ups, which see what `visible` gives

    def visible(self, user: Any) -> QuerySet[Item]:
        return access.visible_items(user).select_related("mailbox", "mailbox__owner")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return access.is_desk(request.user) and (obj is None or access.may_see(request.user, obj))

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("new/", wrap(require_safe(self.new)), name="inbox_item_new"),
            path("bulk/", wrap(require_http_methods(["GET", "HEAD", "POST"])(self.bulk)), name="inbox_item_bulk"),
            path("drop/", wrap(require_http_methods(["GET", "HEAD", "POST"])(self.drop)), name="inbox_item_drop"),
            *super().get_urls(),
        ]

    def require_desk(self, request: HttpRequest) -> None:
        """403 for whoever has no business here."""
        if not self.has_view_permission(request):
            raise PermissionDenied

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        self.require_desk(request)
        return require_safe(queue.page)(request, self.admin_site)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        item = self.row_or_404(request, object_id)
        return require_http_methods(["GET", "HEAD", "POST"])(answer.page)(request, self.admin_site, item)

    def new(self, request: HttpRequest) -> HttpResponse:
        """How many requests came since the page was made."""
        self.require_desk(request)
        return queue.new(request)

    def bulk(self, request: HttpRequest) -> HttpResponse:
        """One answer for many."""
        self.require_desk(request)
        return bulk.page(request, self.admin_site)

    def drop(self, request: HttpRequest) -> HttpResponse:
        """Tell an agent something that it did not ask."""
        if not request.user.has_perm("inbox.drop_item"):
            raise PermissionDenied
        return drop.page(request, self.admin_site)

    def export(self, request: HttpRequest) -> HttpResponseBase:
        """What the queue's filters let through."""
        self.require_desk(request)
        rows = Look(request.GET, request.user).everything().select_related("mailbox")
        return exports.stream(request, rows, self.export_columns, "requests")
