"""API keys: issued once, shown once, revoked."""

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from inbox import access
from inbox.admin.confirm import confirm
from inbox.admin.reader import Link
from inbox.admin.readonly import ReadOnlyAdmin, moment
from inbox.errors import InboxError
from inbox.models import ApiKey, Mailbox
from inbox.services import issuing
from inbox.services.keys import SCOPES
from inbox.services.mailboxes import find_mailbox


class KeyForm(forms.Form):
    """Whose key, what for, and what it may do."""

    owner = forms.CharField(label="User", max_length=150, help_text="The key acts as this user.")
    name = forms.CharField(max_length=100, help_text="What uses it: “till”, “night report”.")
    scopes = forms.MultipleChoiceField(
        choices=[(scope, f"{scope}: {words}") for scope, words in SCOPES.items()],
        widget=forms.CheckboxSelectMultiple,
        required=False,
        help_text="None ticked: whatever its user may do.",
    )
    peer = forms.CharField(
        label="Peer", required=False, max_length=200, help_text="For an agent elsewhere: the address of its mailbox."
    )

    def __init__(self, user: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user

    def clean_owner(self) -> Any:
        """The user of this name. One for whom no key may be issued is as unknown as one who is not there."""
        name = self.cleaned_data["owner"]
        owner = get_user_model().objects.filter(**{get_user_model().USERNAME_FIELD: name}, is_active=True).first()
        if owner is None or not issuing.may_issue_for(self.user, owner):
            raise forms.ValidationError("There is no user of this name for whom you may issue a key.")
        return owner

    def clean_peer(self) -> Mailbox | None:
        """The mailbox at this address, if one was named."""
        if not (address := self.cleaned_data["peer"]):
            return None
        found = find_mailbox(address)
        if found is None or not access.visible_mailboxes(self.user).filter(pk=found.pk).exists():
            raise forms.ValidationError("There is no mailbox at this address.")
        return found

    def clean(self) -> dict[str, Any]:
        """One living key of a name: a form that is sent twice makes one key."""
        data = super().clean() or {}
        if (
            "owner" in data
            and ApiKey.objects.filter(user=data["owner"], name=data.get("name"), revoked_at=None).exists()
        ):
            raise forms.ValidationError("This user has a key of this name. Revoke it first, or choose another name.")
        return data


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    """Keys; their hashes are never shown."""

    list_display = ["name", "prefix", "user", "scope_words", moment("created_at", "issued"), "state"]
    list_select_related = ["user", "peer"]
    search_fields = ["name", "prefix"]

    @admin.display(description="May")
    def scope_words(self, key: ApiKey) -> str:
        return ", ".join(key.scopes) or "whatever its user may"

    @admin.display(description="State")
    def state(self, key: ApiKey) -> str:
        return "revoked" if key.revoked_at else "alive"

    def visible(self, user: Any) -> QuerySet[ApiKey]:
        return ApiKey.objects.select_related("user", "peer")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("inbox.add_apikey")

    def title_of(self, row: ApiKey) -> str:
        return f"API key {row}"

    def facts(self, user: Any, row: ApiKey) -> list[tuple[str, Any]]:
        return [
            ("Name", row.name),
            ("Begins with", row.prefix),
            ("User", row.user.get_username()),
            ("May", self.scope_words(row)),
            ("Peer", row.peer.address if row.peer else ""),
            ("Issued", row.created_at),
            ("Revoked", row.revoked_at),
        ]

    def acts(self, request: HttpRequest, row: ApiKey) -> list[Link]:
        if row.revoked_at or not request.user.has_perm("inbox.change_apikey"):
            return []
        return [Link("Revoke this key…", reverse("admin:inbox_apikey_revoke", args=[row.pk]))]

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [path("<int:key_id>/revoke/", wrap(self.revoke), name="inbox_apikey_revoke"), *super().get_urls()]

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        if request.method not in ("GET", "HEAD", "POST"):
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        form = KeyForm(request.user, request.POST if request.method == "POST" else None)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Issue an API key",
            "form": form,
        }
        if form.is_bound and form.is_valid():
            try:
                key, plaintext = issuing.issue_key_as(request.user, **form.cleaned_data)
                return TemplateResponse(
                    request, "admin/inbox/apikey/issued.html", {**context, "key": key, "plaintext": plaintext}
                )
            except InboxError as error:
                form.add_error(None, str(error))
        return TemplateResponse(request, "admin/inbox/apikey/issue.html", context, status=422 if form.is_bound else 200)

    def revoke(self, request: HttpRequest, key_id: int) -> HttpResponse:
        """Kill a key."""
        if not request.user.has_perm("inbox.change_apikey") or not self.has_view_permission(request):
            raise PermissionDenied
        key = self.visible(request.user).filter(pk=key_id).first()
        if key is None:
            raise Http404

        def act() -> str:
            done = issuing.revoke_key_as(request.user, key)
            return f"Revoked {key}." if done else f"{key} was revoked already."

        return confirm(
            request, self.admin_site, title=f"Revoke {key}?", button="Revoke the key", act=act,
            question="Whatever uses it is refused from now on. A revoked key cannot be brought back.",
            back=reverse("admin:inbox_apikey_change", args=[key.pk]),
        )  # fmt: skip
