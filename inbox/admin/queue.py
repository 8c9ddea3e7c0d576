"""The queue: which requests there are for this person, and a hint when new ones came."""

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from inbox.admin.look import HINT_MOST, Look
from inbox.services.desk import MAX_AT_ONCE


def page(request: HttpRequest, site: Any) -> HttpResponse:
    """The list that a tab and the filters leave, a page of it."""
    look = Look(request.GET, request.user)
    newest = look.newest()  # before the rows are read: a request that comes in between is hinted at, not lost
    found = look.page()
    context = {
        **site.each_context(request),
        "title": "Requests",
        "look": look,
        "page": found,
        "tabs": [
            {"label": label, "url": "?" + look.query_string(tab=key, after=""), "here": key == look.tab}
            for key, label in look.tabs.items()
        ],
        "next_url": found.next and "?" + look.query_string(after=found.next),
        "query": look.query_string(),
        "new_url": reverse("admin:inbox_item_new") + "?" + look.query_string(since=str(newest)),
        "may_answer": look.in_queue_order and request.user.has_perm("inbox.resolve_item"),
        "may_drop": request.user.has_perm("inbox.drop_item"),
        "max_at_once": MAX_AT_ONCE,
    }
    return TemplateResponse(request, "admin/inbox/item/queue.html", context)


def new(request: HttpRequest) -> HttpResponse:
    """`{"new": 3}`: how many requests came that fit the filters, `"99+"` for more than can be told."""
    since = request.GET.get("since", "")
    count = Look(request.GET, request.user).new_since(int(since)) if since.isdecimal() and len(since) < 19 else 0
    return JsonResponse({"new": f"{HINT_MOST}+" if count > HINT_MOST else count})
