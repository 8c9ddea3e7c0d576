"""One answer for many requests: chosen in the queue, typed or canned, and told one by one what became of each."""

from typing import Any

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from inbox import access
from inbox.admin.answer import lines
from inbox.admin.look import Look
from inbox.errors import InboxError
from inbox.models import Item
from inbox.services import desk
from inbox.services.rights import canned_answers


def page(request: HttpRequest, site: Any) -> HttpResponse:
    """GET shows what was selected and a box; POST answers each and shows the summary."""
    ids = _ids(request.POST if request.method == "POST" else request.GET)
    if request.method == "POST":
        return _answer(request, site, ids)
    return _ask(request, site, ids, error=_too_many(ids))


def _ids(form: Any) -> list[int]:
    given = form.getlist("id")
    if not all(value.isdecimal() and len(value) < 19 for value in given):
        raise BadRequest("id is a number")
    return sorted({int(value) for value in given})


def _too_many(ids: list[int]) -> str:
    return (
        f"You selected {len(ids)} requests; {desk.MAX_AT_ONCE} can be answered at once."
        if len(ids) > desk.MAX_AT_ONCE
        else ""
    )


def _seen(request: HttpRequest, ids: list[int]) -> list[Item]:
    """The selected ones that this person may see; of the others she learns nothing."""
    items = access.visible_items(request.user).filter(pk__in=ids[: desk.MAX_AT_ONCE])
    return list(items.select_related("mailbox").order_by("pk"))


def _context(request: HttpRequest, site: Any, title: str) -> dict[str, Any]:
    query = Look(request.GET, request.user).query_string()
    queue = reverse("admin:inbox_item_changelist") + (query and f"?{query}")
    return {**site.each_context(request), "title": title, "queue_url": queue, "query": query}


def _ask(
    request: HttpRequest, site: Any, ids: list[int], *, typed: str = "", error: str = "", status: int = 200
) -> HttpResponse:
    items = _seen(request, ids)
    open_items = [item for item in items if item.status == Item.Status.PENDING]
    context = {
        **_context(request, site, "One answer for many"),
        "items": items,
        "canned": canned_answers({item.tag for item in open_items}) if open_items else [],
        "typed": typed,
        "error": error,
        "may_answer": bool(open_items) and not _too_many(ids),
    }
    return TemplateResponse(request, "admin/inbox/item/bulk.html", context, status=status)


def _answer(request: HttpRequest, site: Any, ids: list[int]) -> HttpResponse:
    typed = lines(request.POST.get("response", ""))
    try:
        fates = desk.resolve_many(request.user, ids, typed, via=Item.Via.ADMIN)
    except InboxError as error:
        return _ask(request, site, ids, typed=typed, error=str(error), status=error.status)
    seen = {item.pk: item for item in _seen(request, ids)}
    context = {
        **_context(request, site, desk.tally(fates) or "Nothing was selected"),
        "rows": [(fate, seen.get(fate.item_id)) for fate in fates],
        "typed": typed,
        "all_done": all(fate.kind == desk.Kind.RESOLVED for fate in fates),
    }
    return TemplateResponse(request, "admin/inbox/item/bulk_done.html", context)
