"""The queue: which requests there are for this person, and a hint when new ones came."""

from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from inbox.admin.look import HINT_MOST, Look
from inbox.services.desk import MAX_AT_ONCE
from inbox.templatetags import desk

WAITS = mark_safe("<strong>agent waits</strong>")


def page(request: HttpRequest, site: Any) -> HttpResponse:
    """The list that a tab and the filters leave, a page of it."""
    look = Look(request.GET, request.user)
    newest = look.newest()  # before the rows are read: a request that comes in between is hinted at, not lost
    found = look.page()
    query = look.query_string()
    context = {
        **site.each_context(request),
        "title": "Requests",
        "look": look,
        "page": found,
        "rows": [_row(item, query, look.in_queue_order) for item in found.rows],
        "tabs": [
            {"label": label, "url": "?" + look.query_string(tab=key, after=""), "here": key == look.tab}
            for key, label in look.tabs.items()
        ],
        "next_url": found.next and "?" + look.query_string(after=found.next),
        "query": query,
        "new_url": reverse("admin:inbox_item_new") + "?" + look.query_string(since=str(newest)),
        "may_answer": look.in_queue_order and request.user.has_perm("inbox.resolve_item"),
        "may_drop": request.user.has_perm("inbox.drop_item"),
        "max_at_once": MAX_AT_ONCE,
    }
    return TemplateResponse(request, "admin/inbox/item/queue.html", context)


class Row(NamedTuple):
    """One request of the list, each cell ready: a page has hundreds of them."""

    pk: int
    url: str
    line: SafeString
    tag: str
    agent: str
    address: str
    blocking: SafeString | str
    age: SafeString
    state: SafeString | str
    state_class: str


def _row(item: Any, query: str, by_due: bool) -> Row:
    box = item.mailbox
    state, state_class = _due(item) if by_due else (_state(item), "state")
    return Row(
        pk=item.pk,
        url=f"{item.pk}/change/?{query}",
        line=desk.one_line(item.head, 140),
        tag=item.tag,
        agent=box.agent,
        address="" if box.address == box.agent else box.address,
        blocking=WAITS if item.blocking else "no",
        age=desk.age(item.created_at),
        state=state,
        state_class=state_class,
    )


def _due(item: Any) -> tuple[SafeString | str, str]:
    return desk.due(item.due_at) or "no deadline", "due overdue" if desk.is_past(item.due_at) else "due"


def _state(item: Any) -> SafeString | str:
    if item.status == item.Status.PENDING:
        return "pending"
    return format_html("{} by {}, {}", item.outcome, desk.inline(item.resolved_by), desk.ago(item.resolved_at))


def new(request: HttpRequest) -> HttpResponse:
    """`{"new": 3}`: how many requests came that fit the filters, `"99+"` for more than can be told."""
    since = request.GET.get("since", "")
    count = Look(request.GET, request.user).new_since(int(since)) if since.isdecimal() and len(since) < 19 else 0
    return JsonResponse({"new": f"{HINT_MOST}+" if count > HINT_MOST else count})
