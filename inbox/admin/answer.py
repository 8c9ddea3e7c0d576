"""One request: what a person needs to decide, one answer box, and what happens to what she typed."""

import datetime
import secrets
import types
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from inbox import access
from inbox.admin import reader
from inbox.admin.look import Look
from inbox.admin.timeline import timeline
from inbox.errors import AlreadyClosed, InboxError, NotAllowed
from inbox.models import Item
from inbox.services import answers, desk
from inbox.services.rights import canned_answers

Outcome, VIA = Item.Outcome, Item.Via.ADMIN
OTHERS = 8  # other requests of the mailbox that are shown


def page(request: HttpRequest, site: Any, item: Item) -> HttpResponse:
    """GET shows; POST with `action` resolve, next, cancel or link does that one thing and reads no other field but its text."""
    if request.method == "POST":
        return _act(request, site, item)
    canned = request.GET.get("canned", "")
    chosen = [row.text for row in canned_answers([item.tag]) if str(row.pk) == canned]
    return _show(request, site, item, typed=chosen[0] if chosen else "")


def lines(text: str) -> str:
    """A browser sends line breaks as CR LF; an answer has LF."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _act(request: HttpRequest, site: Any, item: Item) -> HttpResponse:
    action = request.POST.get("action", "")
    typed = lines(request.POST.get("reason" if action == "cancel" else "response", ""))
    try:
        match action:
            case "resolve" | "next":
                answers.resolve_as(request.user, item.pk, typed, via=VIA)
                messages.success(request, f"Answered request {item.pk}. {_who_wakes(request, item)}")
            case "cancel":
                answers.cancel_as(request.user, item.pk, typed, via=VIA)
                messages.success(request, f"Cancelled request {item.pk}. The agent reads your reason.")
            case "link":
                return _show_link(request, site, item)
            case _:
                raise BadRequest("action is resolve, next, cancel or link")
    except AlreadyClosed as error:
        outcome = Outcome.CANCELLED if action == "cancel" else Outcome.ANSWERED
        if not desk.is_repeat(request.user, item.pk, typed, outcome, via=VIA):
            return _conflict(request, site, item, typed, str(error))
    except NotAllowed as error:
        return _show(request, site, item, refused=typed, error=str(error), status=403)
    except InboxError as error:
        field = "reason" if action == "cancel" else "typed"
        return _show(request, site, item, **{field: typed}, error=str(error), status=error.status)
    look = Look(request.GET, request.user)
    return HttpResponseRedirect(_next_url(request, look, item) if action == "next" else _url(item, look))


def _url(item: Item, look: Look) -> str:
    """The page of an item, which keeps the queue's filters for the way back."""
    query = look.query_string()
    return reverse("admin:inbox_item_change", args=[item.pk]) + (query and f"?{query}")


def _queue_url(look: Look) -> str:
    query = look.query_string()
    return reverse("admin:inbox_item_changelist") + (query and f"?{query}")


def _next_url(request: HttpRequest, look: Look, item: Item) -> str:
    following = look.next_after(item)
    if following is None:
        messages.info(request, "No other request is waiting here.")
        return _queue_url(look)
    return _url(following, look)


def _who_wakes(request: HttpRequest, item: Item) -> str:
    return reader.current().wakes(request.user, item).text


def _show(
    request: HttpRequest, site: Any, item: Item, *, typed: str = "", reason: str = "", refused: str = "", error: str = "",
    status: int = 200,
) -> HttpResponse:  # fmt: skip
    """The page. `typed` and `reason` stand in their boxes again, `refused` in a box to copy from."""
    look = Look(request.GET, request.user)
    pending = item.status == Item.Status.PENDING
    may_answer = pending and access.may_resolve(request.user, item)
    following = look.next_after(item)
    context = {
        **_around(request, site, item),
        "queue_url": _queue_url(look),
        "pending": pending,
        "may_answer": may_answer,
        "canned": canned_answers([item.tag]) if may_answer else [],
        "query": look.query_string(),
        "typed": typed,
        "reason": reason,
        "refused": refused,
        "error": error,
        "letter": _letter(request, item) if may_answer else None,
        "next_url": _url(following, look) if following else "",
    }
    return TemplateResponse(request, "admin/inbox/item/answer.html", context, status=status)


def _around(request: HttpRequest, site: Any, item: Item) -> dict[str, Any]:
    seen = access.visible_items(request.user).filter(mailbox_id=item.mailbox_id).exclude(pk=item.pk)
    found = seen.order_by("-pk").only("pk", "tag", "request", "status", "outcome", "created_at", "blocking")[
        : OTHERS + 1
    ]
    return {
        **site.each_context(request),
        "title": f"Request {item.pk}",
        "item": item,
        "overdue": item.due_at is not None and item.due_at < timezone.now(),
        "panels": reader.current().panels(request.user, item),
        "wakes": reader.current().wakes(request.user, item),
        "events": timeline(request.user, item),
        "others": found[:OTHERS],
    }


def _letter(request: HttpRequest, item: Item) -> tuple[str, str]:
    """What the agent will read, before and after the answer."""
    gap = secrets.token_hex(16)  # stands for the answer that is not written yet
    mail = types.SimpleNamespace(
        id=item.pk, tag=item.tag, request=item.request, asked=item.asked, due_at=item.due_at,
        response=gap, outcome=Outcome.ANSWERED, resolved_by=request.user.get_username(), resolved_via=VIA,
        resolved_at=timezone.now().astimezone(datetime.UTC),
    )  # fmt: skip
    before, _, after = reader.current().letter(mail).partition(gap)
    return before, after


def _conflict(request: HttpRequest, site: Any, item: Item, typed: str, error: str) -> HttpResponse:
    item.refresh_from_db()
    look = Look(request.GET, request.user)
    following = look.next_after(item)
    context = {
        **site.each_context(request),
        "title": f"Request {item.pk} was closed before you",
        "item": item,
        "typed": typed,
        "error": error,
        "mine": item.resolver_id == request.user.pk,
        "url": _url(item, look),
        "next_url": _url(following, look) if following else "",
        "queue_url": _queue_url(look),
    }
    return TemplateResponse(request, "admin/inbox/item/conflict.html", context, status=409)


def _show_link(request: HttpRequest, site: Any, item: Item) -> HttpResponse:
    link, token = answers.make_link(request.user, item.pk)
    context = {
        **site.each_context(request),
        "title": f"A link that answers request {item.pk}",
        "item": item,
        "link": link,
        "address": settings.PUBLIC_URL + reverse("resolve_link", args=[token]),
        "url": _url(item, Look(request.GET, request.user)),
    }
    return TemplateResponse(request, "admin/inbox/item/link.html", context)
