"""/r/<token>: a signed link that answers one item. Looking changes nothing; POST answers. The token is the credential, so no
cookie and no CSRF token count here, and its address is kept out of referrers, caches and search engines.

A browser gets a page. A caller that names JSON gets JSON, and one that posts without asking for a page gets it too.
"""

import datetime
from typing import Any

from django.core.exceptions import BadRequest, SuspiciousOperation
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.http.multipartparser import MultiPartParserError
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from inbox import text
from inbox.errors import AlreadyClosed, BlankText, InboxError, LinkGone, LinkUnknown, UnstorableText
from inbox.http import parser, problems
from inbox.http.errors import WrongContentType
from inbox.models import Item
from inbox.services import answers, items

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "style-src 'self'",
            "img-src data:",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        )
    ),
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex, nofollow, noarchive",
}
JSON = "application/json"
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
def link(request: HttpRequest, token: str) -> HttpResponse:
    """The view."""
    answer = _post if request.method == "POST" else _look
    try:
        response = answer(request, token)
    except Exception as error:
        refused = _page_of(error, request, token) if _wants_page(request) else problems.from_error(error)
        if refused is None:
            raise
        response = refused
    for name, value in HEADERS.items():
        response[name] = value
    return response


def _look(request: HttpRequest, token: str) -> HttpResponse:
    found = answers.find_link(token)
    if found.item.status != Item.Status.PENDING:
        items.refuse(found.item_id, "")
    return _page(request, 200, "open", item=found.item)


def _post(request: HttpRequest, token: str) -> HttpResponse:
    answers.find_link(token)  # whose link is dead need not be told what is wrong with her text
    item = answers.resolve_by_link(token, _typed(request))
    if _wants_page(request):
        return _page(request, 200, "done", item=item)
    return JsonResponse({"id": str(item.pk), "status": item.status, "resolved_at": item.resolved_at})


def _typed(request: HttpRequest) -> str:
    """The answer, from JSON, a form or plain text."""
    if not request.body:
        raise BlankText("The answer is blank. Write at least one visible character.")
    if request.content_type == JSON:
        body = parser.parse_json(request.body)
        if not isinstance(body, dict) or "response" not in body:
            raise UnstorableText('Send an object with the answer as text: {"response": "..."}.')
        return body["response"]
    if request.content_type in FORMS:
        form = _form(request)
        if "response" not in form:
            raise BlankText('Send the answer as the field "response".')
        return form["response"].replace("\r\n", "\n")  # browsers send line ends so
    if request.content_type == "text/plain":
        try:
            return request.body.decode()
        except UnicodeDecodeError as error:
            raise UnstorableText(
                f"The text is not UTF-8: the byte at position {error.start} is not part of it."
            ) from error
    raise WrongContentType(f"Send the answer as {JSON}, as a form or as text/plain.")


def _form(request: HttpRequest) -> dict[str, str]:
    try:
        return {name: str(value) for name, value in request.POST.items()}
    except (BadRequest, MultiPartParserError, SuspiciousOperation) as error:
        request.POST = QueryDict()  # or whoever looks at it next stumbles too
        raise UnstorableText(f"The form cannot be read: {error}") from error


def _page_of(error: Exception, request: HttpRequest, token: str) -> HttpResponse | None:
    """The page that tells of an error; None for one that is not ours to tell."""
    if not isinstance(error, InboxError):
        return None
    try:
        item = answers.find_link(token).item
    except (LinkUnknown, LinkGone) as dead:
        return _page(request, dead.status, "dead", problem=str(dead))
    if isinstance(error, AlreadyClosed):
        return _page(request, error.status, "closed", item=item, **_conflict(item, error))
    return _page(request, error.status, "open", item=item, problem=str(error), typed=request.POST.get("response", ""))


def _conflict(item: Item, error: AlreadyClosed) -> dict[str, Any]:
    """Who, when, and the typed text to copy. The second half of a double click is a conflict too, but no reason for worry."""
    typed = error.facts["text"]
    return {
        "by": error.facts["by"],
        "outcome": error.facts["outcome"],
        "at": datetime.datetime.fromisoformat(error.facts["at"]),
        "typed": typed,
        "same": bool(typed) and item.response == typed and item.resolved_via == Item.Via.LINK,
    }


def _page(request: HttpRequest, status: int, state: str, **context: Any) -> HttpResponse:
    if item := context.get("item"):
        context["request_text"], context["hidden"] = text.marked(item.request)
    return render(request, "inbox/link.html", {"state": state, **context}, status=status)


def _wants_page(request: HttpRequest) -> bool:
    """Browsers ask for HTML. Whoever looks without saying what she wants gets the page too; a program that posts does not."""
    accept = request.headers.get("Accept", "")
    if request.content_type == JSON:
        return False
    return "text/html" in accept or (request.method != "POST" and "json" not in accept)
