"""Tag groups, tried on a sample tag before they are saved; canned answers."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from inbox import tags
from inbox.errors import InboxError
from inbox.models import CannedAnswer, TagGroup
from inbox.services import rights


class TagGroupForm(forms.ModelForm):
    """A pattern and its groups, and a sample tag to try them on."""

    groups = forms.ModelMultipleChoiceField(
        Group.objects.order_by("name"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="None ticked: nobody but superusers can answer these tags.",
    )
    sample = forms.RegexField(
        f"^{tags.TAG}\\Z",
        label="A tag to try it on",
        required=False,
        max_length=120,
        help_text="Such as approval:refund: it shows who would answer it. Trying changes nothing.",
    )

    class Meta:
        model = TagGroup
        fields = ["pattern", "groups"]
        help_texts = {"pattern": "The tags that these groups answer; * stands for any run of characters: approval:*"}


class CannedAnswerForm(forms.ModelForm):
    """A text to keep at hand."""

    class Meta:
        model = CannedAnswer
        fields = ["title", "pattern", "text"]


class ServiceAdmin(admin.ModelAdmin):
    """Rows that staff edit, written by services."""

    actions = None
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        plain = {"show_save_and_add_another": False, "show_save_and_continue": False}
        return super().changeform_view(request, object_id, form_url, {**plain, **(extra_context or {})})

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """The service has written them."""


@admin.register(TagGroup)
class TagGroupAdmin(ServiceAdmin):
    """Who answers which tags."""

    form = TagGroupForm
    list_display = ["pattern", "group_names"]

    @admin.display(description="Answered by")
    def group_names(self, row: TagGroup) -> str:
        return ", ".join(sorted(group.name for group in row.groups.all())) or "nobody but superusers"

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).prefetch_related("groups")

    def delete_model(self, request: HttpRequest, obj: TagGroup) -> None:
        rights.drop_tag_group(obj.pk)

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """GET shows the form; POST with `_try` shows who would answer the sample and saves nothing; POST else saves."""
        row = self._row(request, object_id)
        form = TagGroupForm(request.POST if request.method == "POST" else None, instance=row)
        trial = None
        if form.is_bound and form.is_valid():
            if "_try" not in request.POST:
                return self._save(request, form, row)
            trial = self._trial(form, row)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Change tag group" if row else "Add tag group",
            "form": form,
            "trial": trial,
            "row": row,
            "may_save": self.has_change_permission(request, row) if row else True,
            "may_delete": row is not None and self.has_delete_permission(request, row),
        }
        return TemplateResponse(request, "admin/inbox/taggroup/edit.html", context, status=422 if form.errors else 200)

    def _row(self, request: HttpRequest, object_id: str | None) -> TagGroup | None:
        """The row to change, None for a new one; 403 and 404 as they are due."""
        if object_id is None:
            allowed, row = self.has_add_permission(request), None
        else:
            allowed = self.has_change_permission(request)
            if request.method in ("GET", "HEAD"):
                allowed = self.has_view_permission(request)
            row = self.get_object(request, unquote(object_id)) if allowed else None
        if not allowed:
            raise PermissionDenied
        if object_id is not None and row is None:
            raise Http404
        return row

    def _trial(self, form: TagGroupForm, row: TagGroup | None) -> rights.Trial | None:
        given = form.cleaned_data
        try:
            return rights.try_tag_group(given["sample"], given["pattern"], given["groups"], pk=row.pk if row else None)
        except InboxError as error:
            form.add_error("sample", str(error))
            return None

    def _save(self, request: HttpRequest, form: TagGroupForm, row: TagGroup | None) -> HttpResponse:
        given = form.cleaned_data
        saved = rights.set_tag_group(given["pattern"], given["groups"], pk=row.pk if row else None)
        names = ", ".join(sorted(group.name for group in given["groups"])) or "nobody"
        (self.log_change if row else self.log_addition)(request, saved, f"Answered by {names}.")
        messages.success(request, f"Saved: {saved.pattern} is answered by {names}.")
        return HttpResponseRedirect(reverse("admin:inbox_taggroup_changelist"))


@admin.register(CannedAnswer)
class CannedAnswerAdmin(ServiceAdmin):
    """Texts that staff give again and again."""

    form = CannedAnswerForm
    list_display = ["title", "pattern", "beginning"]

    @admin.display(description="Text")
    def beginning(self, row: CannedAnswer) -> str:
        return row.text[:80]

    def save_model(self, request: HttpRequest, obj: CannedAnswer, form: Any, change: bool) -> None:
        obj.pk = rights.set_canned_answer(obj.pattern, obj.title, obj.text, pk=obj.pk).pk

    def delete_model(self, request: HttpRequest, obj: CannedAnswer) -> None:
        rights.drop_canned_answer(obj.pk)
