"""Peers: registered, retired, brought back, subscribed to topics."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from inbox.admin.confirm import confirm
from inbox.admin.reader import Link, Panel
from inbox.admin.readonly import ReadOnlyAdmin, moment
from inbox.errors import InboxError
from inbox.templatetags.desk import inline
from mesh.admin.filters import CapabilityFilter, RetiredFilter
from mesh.admin.shared import MANAGE, RECENT, known
from mesh.models import Peer
from mesh.services import joining, leaving
from mesh.tools import describe


class PeerForm(forms.Form):
    """An outside peer."""

    address = forms.CharField(max_length=200, help_text="Such as erp or shop/till. Letters, digits and . _ @ + / -")
    description = forms.CharField(required=False, max_length=2000, widget=forms.Textarea({"rows": 3}))
    capabilities = forms.CharField(required=False, max_length=1000, help_text="Separated by commas.")
    public = forms.BooleanField(required=False, help_text="Everyone on the mesh sees it and may write to it.")


class TopicForm(forms.Form):
    """A topic to subscribe a peer to."""

    topic = forms.CharField(max_length=100)


@admin.register(Peer)
class PeerAdmin(ReadOnlyAdmin):
    """Who can be written to."""

    list_display = ["address", "agent", "who_sees_it", "state", moment("created_at", "since")]
    list_select_related = ["mailbox", "mailbox__owner"]
    list_filter = [RetiredFilter, "public", CapabilityFilter]
    search_fields = ["mailbox__address"]
    export_columns = {
        "id": lambda row: row.pk,
        "address": str,
        "agent": lambda row: row.mailbox.agent,
        "public": lambda row: row.public,
        "retired_at": lambda row: row.retired_at,
    }

    @admin.display(description="Address")
    def address(self, row: Peer) -> SafeString:
        return inline(row)

    @admin.display(description="Read by")
    def agent(self, row: Peer) -> str:
        return row.mailbox.agent or "an outside program"

    @admin.display(description="Seen by")
    def who_sees_it(self, row: Peer) -> str:
        if row.mailbox.owner:
            return f"other peers of {row.mailbox.owner.get_username()}"
        return "everyone" if row.public else "those whom it writes to"

    @admin.display(description="State")
    def state(self, row: Peer) -> str:
        return "retired" if row.retired_at else "on the mesh"

    def visible(self, user: Any) -> QuerySet[Peer]:
        return Peer.objects.select_related("mailbox__owner")

    def title_of(self, row: Peer) -> str:
        return f"Peer {row}"

    def facts(self, user: Any, row: Peer) -> list[tuple[str, Any]]:
        told = describe(row)
        return known(
            ("Read by", self.agent(row)),
            ("Seen by", self.who_sees_it(row)),
            ("State", self.state(row)),
            ("Description", told["description"]),
            ("Capabilities", ", ".join(told["capabilities"])),
            ("Metadata", told["metadata"] or ""),
            ("On the mesh since", row.created_at),
            ("Retired", row.retired_at),
        )

    def panels(self, user: Any, row: Peer) -> list[Panel]:
        topics = row.subscriptions.order_by("topic")
        sent = row.sent.order_by("-created_at")[:RECENT]
        return [
            Panel("Topics", "admin/mesh/topics.html", {"topics": topics, "peer": row, "may": user.has_perm(MANAGE)}),
            Panel("Its newest messages", "admin/mesh/messages.html", {"sent": sent}),
        ]

    def acts(self, request: HttpRequest, row: Peer) -> list[Link]:
        if not request.user.has_perm(MANAGE):
            return []
        move = ("Bring it back…", "bring_back") if row.retired_at else ("Retire it…", "retire")
        return [
            Link(move[0], reverse(f"admin:mesh_peer_{move[1]}", args=[row.pk])),
            Link("Subscribe it to a topic…", reverse("admin:mesh_peer_subscribe", args=[row.pk])),
        ]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(MANAGE)

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("<int:row_id>/retire/", wrap(self.retire), name="mesh_peer_retire"),
            path("<int:row_id>/bring-back/", wrap(self.bring_back), name="mesh_peer_bring_back"),
            path("<int:row_id>/subscribe/", wrap(self.subscribe), name="mesh_peer_subscribe"),
            path("<int:row_id>/unsubscribe/", wrap(self.unsubscribe), name="mesh_peer_unsubscribe"),
            *super().get_urls(),
        ]

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied

        def act(form: forms.Form) -> Peer:
            given = form.cleaned_data
            names = [name.strip() for name in given["capabilities"].split(",") if name.strip()]
            return joining.register_outside(
                request.user,
                given["address"],
                description=given["description"],
                capabilities=names,
                public=given["public"],
            )

        return self.fill_in(request, PeerForm, "Register an outside peer", "Register it", act)

    def retire(self, request: HttpRequest, row_id: int) -> HttpResponse:
        """Take it off the mesh."""
        row = self.managed(request, row_id)
        question = "Nobody can write to it then, and whoever waits for it is told so. Its mailbox and mail stay."
        return self.ask(
            request, row, f"Retire {row}?", question, "Retire it", lambda: leaving.retire(request.user, row.pk)
        )

    def bring_back(self, request: HttpRequest, row_id: int) -> HttpResponse:
        """Put it back."""
        row = self.managed(request, row_id)
        question = "It can be written to again. Waits that its retirement ended stay ended."
        return self.ask(
            request,
            row,
            f"Bring {row} back?",
            question,
            "Bring it back",
            lambda: leaving.bring_back(request.user, row.pk),
        )

    def subscribe(self, request: HttpRequest, row_id: int) -> HttpResponse:
        """Have it get a topic's broadcasts."""
        row = self.managed(request, row_id)

        def act(form: forms.Form) -> Peer:
            leaving.subscribe(request.user, row.pk, form.cleaned_data["topic"])
            return row

        return self.fill_in(request, TopicForm, f"Subscribe {row} to a topic", "Subscribe it", act)

    def unsubscribe(self, request: HttpRequest, row_id: int) -> HttpResponse:
        """Undo it."""
        row = self.managed(request, row_id)
        topic = request.GET.get("topic", "")
        return self.ask(
            request,
            row,
            f"Unsubscribe {row} from “{topic}”?",
            "It gets the topic's broadcasts no more.",
            "Unsubscribe it",
            lambda: leaving.unsubscribe(request.user, row.pk, topic),
        )

    def managed(self, request: HttpRequest, row_id: int) -> Peer:
        """The peer, for whoever may manage the mesh."""
        if not request.user.has_perm(MANAGE):
            raise PermissionDenied
        row = self.visible(request.user).filter(pk=row_id).first()
        if row is None:
            raise Http404
        return row

    def ask(
        self, request: HttpRequest, row: Peer, title: str, question: str, button: str, act: Callable[[], Any]
    ) -> HttpResponse:
        """GET asks, POST does it."""

        def done() -> str:
            act()
            return f"Done: {row}."

        back = reverse("admin:mesh_peer_change", args=[row.pk])
        return confirm(request, self.admin_site, title=title, question=question, button=button, back=back, act=done)

    def fill_in(
        self, request: HttpRequest, form_class: type[forms.Form], title: str, button: str, act: Callable[[Any], Peer]
    ) -> HttpResponse:
        """GET shows a form, POST does what it says."""
        if request.method not in ("GET", "HEAD", "POST"):
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        form = form_class(request.POST if request.method == "POST" else None)
        if form.is_bound and form.is_valid():
            try:
                row = act(form)
            except InboxError as error:
                form.add_error(None, str(error))
            else:
                messages.success(request, f"Done: {row}.")
                return HttpResponseRedirect(reverse("admin:mesh_peer_change", args=[row.pk]))
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": title,
            "form": form,
            "button": button,
        }
        return TemplateResponse(request, "admin/mesh/fill_in.html", context, status=422 if form.errors else 200)
