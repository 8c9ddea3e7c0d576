"""What there is and what has happened, to read: mailboxes, links, notices, runs of resolvers."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from inbox import access
from inbox.admin import reader
from inbox.admin.confirm import confirm
from inbox.admin.reader import Link, Panel
from inbox.admin.readonly import ReadOnlyAdmin, moment
from inbox.models import Item, Mailbox, Notification, ResolveLink, ResolverRun
from inbox.services import answers
from inbox.templatetags.desk import inline

RECENT = 20


def item_link(user: Any, item: Item) -> SafeString | str:
    """A request's number, as a link for whoever may open it."""
    if not access.is_desk(user):
        return str(item.pk)
    return format_html(
        '<a href="{}">request {}</a>, {}', reverse("admin:inbox_item_change", args=[item.pk]), item.pk, item.tag
    )


@admin.register(Mailbox)
class MailboxAdmin(ReadOnlyAdmin):
    """Addresses, whom they serve and who reads them."""

    list_display = ["address", "agent", "owner", moment("created_at", "opened")]
    list_select_related = ["owner"]
    search_fields = ["address"]
    export_columns = {
        "id": lambda row: row.pk,
        "address": lambda row: row.address,
        "agent": lambda row: row.agent,
        "owner": lambda row: row.owner and row.owner.get_username(),
        "created_at": lambda row: row.created_at,
    }

    def visible(self, user: Any) -> QuerySet[Mailbox]:
        return access.visible_mailboxes(user).select_related("owner")

    def title_of(self, row: Mailbox) -> str:
        return f"Mailbox {row.address}"

    def facts(self, user: Any, row: Mailbox) -> list[tuple[str, Any]]:
        return [
            ("Address", row.address),
            ("Agent", row.agent),
            ("Serves", row.owner.get_username() if row.owner else "nobody in particular"),
            ("Opened", row.created_at),
        ]

    def panels(self, user: Any, row: Mailbox) -> list[Panel]:
        items = access.visible_items(user).filter(mailbox=row).order_by("-pk")[:RECENT] if access.is_desk(user) else []
        return [
            Panel("Its newest requests", "admin/inbox/mailbox/items.html", {"items": items}),
            Panel("Read in", "admin/inbox/mailbox/links.html", {"links": reader.current().mailbox_links(user, row.pk)}),
        ]

    def acts(self, request: HttpRequest, row: Mailbox) -> list[Link]:
        if not request.user.has_perm("inbox.drop_item"):
            return []
        return [Link("Tell its agent something…", f"{reverse('admin:inbox_item_drop')}?mailbox={row.address}")]


@admin.register(ResolveLink)
class ResolveLinkAdmin(ReadOnlyAdmin):
    """Signed links; only a token's hash is kept, and it is never shown."""

    list_display = ["__str__", "maker", moment("created_at", "made"), moment("expires_at", "good until"), "state"]
    list_select_related = ["maker"]
    export_columns = {
        "id": lambda row: row.pk,
        "item": lambda row: row.item_id,
        "maker": lambda row: row.maker.get_username(),
        "created_at": lambda row: row.created_at,
        "expires_at": lambda row: row.expires_at,
        "revoked_at": lambda row: row.revoked_at,
    }

    def visible(self, user: Any) -> QuerySet[ResolveLink]:
        return ResolveLink.objects.filter(item__in=access.visible_items(user)).select_related("item__mailbox", "maker")

    @admin.display(description="State")
    def state(self, row: ResolveLink) -> str:
        if row.revoked_at:
            return "revoked"
        if row.item.status != Item.Status.PENDING:
            return "its request is closed"
        return "expired" if row.expires_at <= timezone.now() else "alive"

    def facts(self, user: Any, row: ResolveLink) -> list[tuple[str, Any]]:
        return [
            ("Answers", item_link(user, row.item)),
            ("Made by", row.maker.get_username()),
            ("Made", row.created_at),
            ("Good until", row.expires_at),
            ("Revoked", row.revoked_at),
            ("State", self.state(row)),
        ]

    def acts(self, request: HttpRequest, row: ResolveLink) -> list[Link]:
        if row.revoked_at or not access.may_resolve(request.user, row.item):
            return []
        return [Link("Revoke this link…", reverse("admin:inbox_resolvelink_revoke", args=[row.pk]))]

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [path("<int:link_id>/revoke/", wrap(self.revoke), name="inbox_resolvelink_revoke"), *super().get_urls()]

    def revoke(self, request: HttpRequest, link_id: int) -> HttpResponse:
        """Kill a link."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        link = self.visible(request.user).filter(pk=link_id).first()
        if link is None:
            raise Http404
        if not access.may_resolve(request.user, link.item):
            raise PermissionDenied

        def act() -> str:
            done = answers.revoke_link(request.user, link.pk)
            return "The link is revoked." if done else "The link was revoked already."

        return confirm(
            request, self.admin_site, title=f"Revoke {link}?", button="Revoke the link", act=act,
            question="Whoever has it cannot answer with it any more.",
            back=reverse("admin:inbox_resolvelink_change", args=[link.pk]),
        )  # fmt: skip


@admin.register(Notification)
class NotificationAdmin(ReadOnlyAdmin):
    """Notices of requests: sent, about to be, or failed and why. None of them touches its item."""

    list_display = ["__str__", "status", "recipients", "attempts", moment("created_at", "made"), "trouble"]
    list_filter = ["status"]
    export_columns = {
        "id": lambda row: row.pk,
        "item": lambda row: row.item_id,
        "notifier": lambda row: row.notifier,
        "status": lambda row: row.status,
        "recipients": lambda row: row.recipients,
        "attempts": lambda row: row.attempts,
        "error": lambda row: row.error,
        "created_at": lambda row: row.created_at,
        "sent_at": lambda row: row.sent_at,
    }

    def visible(self, user: Any) -> QuerySet[Notification]:
        return Notification.objects.filter(item__in=access.visible_items(user)).select_related("item__mailbox")

    @admin.display(description="Error")
    def trouble(self, row: Notification) -> SafeString:
        return inline(row.error[:120])

    def facts(self, user: Any, row: Notification) -> list[tuple[str, Any]]:
        return [
            ("About", item_link(user, row.item)),
            ("By", row.notifier),
            ("State", row.status),
            ("To", row.recipients),
            ("Tries", row.attempts),
            ("Made", row.created_at),
            ("Sent", row.sent_at),
            ("Error", row.error),
        ]


@admin.register(ResolverRun)
class ResolverRunAdmin(ReadOnlyAdmin):
    """Runs of resolvers: what they looked at, answered, and stumbled over."""

    list_display = ["__str__", "looked_at", "resolved", "failed", moment("finished_at", "ended"), "trouble"]
    search_fields = ["name"]
    export_columns = {
        "id": lambda row: row.pk,
        "name": lambda row: row.name,
        "instant": lambda row: row.instant,
        "started_at": lambda row: row.started_at,
        "finished_at": lambda row: row.finished_at,
        "looked_at": lambda row: row.looked_at,
        "resolved": lambda row: row.resolved,
        "failed": lambda row: row.failed,
        "error": lambda row: row.error,
    }

    @admin.display(description="Error")
    def trouble(self, row: ResolverRun) -> SafeString:
        return inline(row.error[:120])

    def facts(self, user: Any, row: ResolverRun) -> list[tuple[str, Any]]:
        return [
            ("Resolver", row.name),
            ("For the instant", row.instant),
            ("Began", row.started_at),
            ("Ended", row.finished_at),
            ("Requests it looked at", row.looked_at),
            ("Answered", row.resolved),
            ("Failed", row.failed),
        ]

    def panels(self, user: Any, row: ResolverRun) -> list[Panel]:
        return [Panel("Errors", "admin/inbox/error.html", {"error": row.error})] if row.error else []
