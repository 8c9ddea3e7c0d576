"""Messages with their receipts, dead deliveries, stopped chains."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from inbox.admin.confirm import confirm
from inbox.admin.reader import Link, Panel
from inbox.admin.readonly import ReadOnlyAdmin, moment
from inbox.templatetags.desk import inline, one_line
from mesh.admin.filters import AttentionFilter, SeenFilter
from mesh.admin.shared import MANAGE, RECENT, known, page, turn_link
from mesh.models import Delivery, Message, StoppedChain
from mesh.receipts import receipts
from mesh.services import desk

SHOWN = 200  # receipts on a page


@admin.register(Message)
class MessageAdmin(ReadOnlyAdmin):
    """What peers wrote, and what became of it."""

    list_display = ["told", "sender_address", "kind", "blocking", "hops", moment("created_at", "sent")]
    list_select_related = ["sender__mailbox"]
    list_filter = ["kind", "blocking"]
    search_fields = ["sender__mailbox__address"]
    export_columns = {
        "id": lambda row: row.pk,
        "sender": lambda row: str(row.sender),
        "kind": lambda row: row.kind,
        "content": lambda row: row.content,
        "in_reply_to": lambda row: row.in_reply_to_id,
        "blocking": lambda row: row.blocking,
        "root": lambda row: row.root,
        "hops": lambda row: row.hops,
        "created_at": lambda row: row.created_at,
    }

    @admin.display(description="Message")
    def told(self, row: Message) -> SafeString:
        return one_line(row.content)

    @admin.display(description="From")
    def sender_address(self, row: Message) -> SafeString:
        return inline(row.sender)

    def visible(self, user: Any) -> QuerySet[Message]:
        return Message.objects.select_related("sender__mailbox", "wait")

    def title_of(self, row: Message) -> str:
        return f"{'Broadcast' if row.kind == row.Kind.BROADCAST else 'Message'} from {row.sender}"

    def facts(self, user: Any, row: Message) -> list[tuple[str, Any]]:
        return known(
            ("From", page("peer", row.sender)),
            ("Topic", row.topic),
            ("Capability", row.capability),
            ("In reply to", page("message", row.in_reply_to) if row.in_reply_to else ""),
            ("The sender waits", self.waiting(row)),
            ("Hops", f"{row.hops}, in the chain that {'it' if row.root == row.pk else row.root} began"),
            ("Sent in turn", turn_link(user, row.sent_in)),
            ("Sent", row.created_at),
            ("Id", row.pk),
        )

    def waiting(self, row: Message) -> str:
        """What the sender waits for, in words."""
        if row.wait is None:
            return "no"
        needed = " for everyone" if row.everyone else f" for {row.quorum} recipients" if row.quorum > 1 else ""
        return f"yes{needed}" if row.wait.status == "pending" else f"no longer: {row.wait.outcome}"

    def panels(self, user: Any, row: Message) -> list[Panel]:
        shown = [{**one, "turn": turn_link(user, one["read_in"])} for one in receipts(row, most=SHOWN + 1)]
        context = {"receipts": shown[:SHOWN], "most": SHOWN if len(shown) > SHOWN else 0}
        answers = row.replies.select_related("sender__mailbox").order_by("pk")[:RECENT]
        return [
            Panel("What was written", "admin/mesh/content.html", {"content": row.content}),
            Panel("Receipts", "admin/mesh/receipts.html", context),
            *([Panel("Replies", "admin/mesh/messages.html", {"sent": answers, "named": True})] if answers else []),
        ]


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    """One message to one recipient. Dead ones are sent again or closed here."""

    list_display = ["told", "from_peer", "to_peer", "state", moment("created_at", "made"), "closed"]
    list_select_related = ["message", "sender__mailbox", "recipient__mailbox"]
    list_filter = [AttentionFilter, "status"]

    @admin.display(description="Message")
    def told(self, row: Delivery) -> SafeString:
        return one_line(row.message.content)

    @admin.display(description="State")
    def state(self, row: Delivery) -> SafeString:
        return inline(f"{row.status}: {row.reason}" if row.reason else row.status)

    @admin.display(description="From")
    def from_peer(self, row: Delivery) -> SafeString:
        return inline(row.sender)

    @admin.display(description="To")
    def to_peer(self, row: Delivery) -> SafeString:
        return inline(row.recipient)

    @admin.display(description="Closed")
    def closed(self, row: Delivery) -> str:
        return "closed" if row.closed_at else "–"

    def visible(self, user: Any) -> QuerySet[Delivery]:
        return Delivery.objects.select_related("message", "sender__mailbox", "recipient__mailbox", "item")

    def title_of(self, row: Delivery) -> str:
        return f"Delivery to {row.recipient}"

    def facts(self, user: Any, row: Delivery) -> list[tuple[str, Any]]:
        return known(
            ("Message", page("message", row.message)),
            ("From", page("peer", row.sender)),
            ("To", page("peer", row.recipient)),
            ("State", row.status),
            ("Why it is dead", row.reason),
            ("Delivered", row.delivered_at),
            ("Read", row.item.consumed_at if row.item else None),
            ("Read in turn", turn_link(user, row.item.consumed_in if row.item else None)),
            ("Acknowledged", row.acknowledged_at),
            ("With the words", row.ack_note),
            ("Closed by staff", row.closed_at),
        )

    def panels(self, user: Any, row: Delivery) -> list[Panel]:
        return [Panel("What was written", "admin/mesh/content.html", {"content": row.message.content})]

    def acts(self, request: HttpRequest, row: Delivery) -> list[Link]:
        if row.status != Delivery.Status.DEAD or not request.user.has_perm(MANAGE):
            return []
        found = [Link("Send it again…", reverse("admin:mesh_delivery_again", args=[row.pk]))]
        return found + (
            [] if row.closed_at else [Link("Close it…", reverse("admin:mesh_delivery_close", args=[row.pk]))]
        )

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("<int:row_id>/again/", wrap(self.again), name="mesh_delivery_again"),
            path("<int:row_id>/close/", wrap(self.close), name="mesh_delivery_close"),
            *super().get_urls(),
        ]

    def again(self, request: HttpRequest, row_id: int) -> HttpResponse:
        """Send a dead one again."""
        question = "It is delivered now, unless its recipient is still gone."
        return self.act_on(request, row_id, "Send it again?", question, "Send it again", desk.send_again)

    def close(self, request: HttpRequest, row_id: int) -> HttpResponse:
        """Take a dead one off the list of what needs attention."""
        question = "It stays undelivered, and needs no attention any more."
        return self.act_on(request, row_id, "Close it?", question, "Close it", desk.close)

    def act_on(
        self,
        request: HttpRequest,
        row_id: int,
        title: str,
        question: str,
        button: str,
        act: Callable[[Any, int], Delivery],
    ) -> HttpResponse:
        """GET asks, POST does it."""
        if not request.user.has_perm(MANAGE):
            raise PermissionDenied
        if not self.visible(request.user).filter(pk=row_id).exists():
            raise Http404

        def done() -> str:
            return f"Delivery {row_id} is {act(request.user, row_id).status}."

        back = reverse("admin:mesh_delivery_change", args=[row_id])
        return confirm(request, self.admin_site, title=title, question=question, button=button, back=back, act=done)


@admin.register(StoppedChain)
class StoppedChainAdmin(ReadOnlyAdmin):
    """Chains of messages that ran over their budget: one notice for each."""

    list_display = ["unsent", "sender_address", "seen", moment("created_at", "stopped")]
    list_select_related = ["sender__mailbox", "seen_by"]
    list_filter = [SeenFilter]

    @admin.display(description="Stopped at")
    def sender_address(self, row: StoppedChain) -> SafeString:
        return inline(row.sender)

    @admin.display(description="What was not sent")
    def unsent(self, row: StoppedChain) -> SafeString:
        return one_line(row.content)

    @admin.display(description="Seen by")
    def seen(self, row: StoppedChain) -> str:
        return row.seen_by.get_username() if row.seen_by else "nobody yet"

    def visible(self, user: Any) -> QuerySet[StoppedChain]:
        return StoppedChain.objects.select_related("sender__mailbox", "seen_by")

    def title_of(self, row: StoppedChain) -> str:
        return f"A chain of messages, stopped at {row.sender}"

    def facts(self, user: Any, row: StoppedChain) -> list[tuple[str, Any]]:
        return [
            ("Stopped at", page("peer", row.sender)),
            ("Stopped", row.created_at),
            ("Messages in it", Message.objects.filter(root=row.root).count()),
            ("Seen by", self.seen(row)),
        ]

    def panels(self, user: Any, row: StoppedChain) -> list[Panel]:
        chain = Message.objects.filter(root=row.root).select_related("sender__mailbox").order_by("pk")[:RECENT]
        return [
            Panel("What was not sent", "admin/mesh/content.html", {"content": row.content}),
            Panel("How it began", "admin/mesh/messages.html", {"sent": chain, "named": True}),
        ]

    def acts(self, request: HttpRequest, row: StoppedChain) -> list[Link]:
        if row.seen_by_id or not request.user.has_perm(MANAGE):
            return []
        return [Link("Take note of it…", reverse("admin:mesh_stoppedchain_see", args=[row.pk]))]

    def get_urls(self) -> list[URLPattern]:
        see = path("<int:row_id>/see/", self.admin_site.admin_view(self.see), name="mesh_stoppedchain_see")
        return [see, *super().get_urls()]

    def see(self, request: HttpRequest, row_id: int) -> HttpResponse:
        """Have it need attention no more."""
        if not request.user.has_perm(MANAGE) or not self.has_view_permission(request):
            raise PermissionDenied
        if not self.visible(request.user).filter(pk=row_id).exists():
            raise Http404

        def done() -> str:
            return f"Seen by {desk.see(request.user, row_id).seen_by}."

        return confirm(
            request,
            self.admin_site,
            title="Take note of this stopped chain?",
            question="The chain stays stopped. The notice needs attention no more, and says that you have seen it.",
            button="Take note of it",
            back=reverse("admin:mesh_stoppedchain_change", args=[row_id]),
            act=done,
        )
