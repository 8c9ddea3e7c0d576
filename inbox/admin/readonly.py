"""Pages that only show: no add, no change, no delete, no action, no count of the table, and only what a person may see."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.functional import cached_property
from django.utils.text import capfirst
from django.views.decorators.http import require_safe

from inbox.admin import exports
from inbox.admin.reader import Link, Panel
from inbox.templatetags.desk import stamp

SAFE = ("GET", "HEAD")
REACH = 2_000  # rows that paging reaches; filters reach the rest


def moment(field: str, words: str = "") -> Callable[[Any], Any]:
    """A column of a list that shows a time."""

    @admin.display(description=words or field.removesuffix("_at").replace("_", " "), ordering=field)
    def column(row: Any) -> Any:
        return stamp(getattr(row, field)) or "–"

    return column


class BoundedPaginator(Paginator):
    """Counts no further than paging reaches."""

    @cached_property
    def count(self) -> int:
        """How many rows there are, at most REACH."""
        rows: Any = self.object_list
        return rows[:REACH].count()


class ReadOnlyAdmin(admin.ModelAdmin):
    """A list and a page per row, to read. `visible` says which rows a person sees."""

    paginator = BoundedPaginator
    show_full_result_count = False
    list_per_page = 50
    list_max_show_all = 0
    actions = None
    show_facets = admin.ShowFacets.NEVER
    ordering = ["-pk"]
    sortable_by = ()
    search_help_text = "Words that one of its names holds."
    change_list_template = "admin/inbox/rows.html"
    show_template = "admin/inbox/row.html"
    # Columns of the export: a name, and how a row gives it. None: no export.
    export_columns: dict[str, Callable[[Any], Any]] = {}

    def visible(self, user: Any) -> QuerySet[Any]:
        """The rows that this person may see."""
        return self.model._default_manager.all()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        items = self.visible(request.user)
        if ordering := self.get_ordering(request):
            items = items.order_by(*ordering)
        return items

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        # By the view permission alone: Django would also take the one to change, which other pages give a meaning to.
        name = f"{self.opts.app_label}.view_{self.opts.model_name}"
        return request.user.has_perm(name) and (obj is None or self.visible(request.user).filter(pk=obj.pk).exists())

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        # Any other field of the row could be guessed letter by letter: a hash, a name, what a related row holds.
        filters = {name if isinstance(name, str) else getattr(name, "parameter_name", "") for name in self.list_filter}
        return lookup.removesuffix("__exact").removesuffix("__isnull") in filters

    def row_or_404(self, request: HttpRequest, object_id: str) -> Any:
        """The row. 403 without the right to see any, 404 where there is none for this person."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404
        return row

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method not in SAFE:
            return HttpResponseNotAllowed(SAFE)
        return super().changelist_view(
            request, {"exports": bool(self.export_columns), "reach": REACH, **(extra_context or {})}
        )

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        if request.method not in SAFE:
            return HttpResponseNotAllowed(SAFE)
        row = self.row_or_404(request, object_id)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": self.title_of(row),
            "row": row,
            "facts": self.facts(request.user, row),
            "panels": self.panels(request.user, row),
            "acts": self.acts(request, row),
        }
        return TemplateResponse(request, self.show_template, context)

    def title_of(self, row: Any) -> str:
        """What its page is called."""
        return f"{capfirst(self.opts.verbose_name)} {row.pk}"

    def facts(self, user: Any, row: Any) -> list[tuple[str, Any]]:
        """What is known of a row, each with its name."""
        return []

    def panels(self, user: Any, row: Any) -> list[Panel]:
        """What hangs together with a row, in boxes below it."""
        return []

    def acts(self, request: HttpRequest, row: Any) -> list[Link]:
        """What this person may do to it: each leads to a page that asks before it does it."""
        return []

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        if request.method not in SAFE:
            return HttpResponseNotAllowed(SAFE)
        self.row_or_404(request, object_id)
        return super().history_view(request, object_id, extra_context)

    def get_urls(self) -> list[URLPattern]:
        name = f"{self.opts.app_label}_{self.opts.model_name}_export"
        mine = [path("export/", self.admin_site.admin_view(require_safe(self.export)), name=name)]
        return (mine if self.export_columns else []) + super().get_urls()

    def export(self, request: HttpRequest) -> HttpResponseBase:
        """All rows that this person sees, as CSV or JSON."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return exports.stream(
            request, self.get_queryset(request), self.export_columns, str(self.opts.verbose_name_plural)
        )
