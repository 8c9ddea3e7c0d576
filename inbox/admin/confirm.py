"""A page that asks before it does one thing: GET asks, POST does it."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse

from inbox.errors import InboxError


def confirm(
    request: HttpRequest, site: Any, *, title: str, question: str, button: str, back: str, act: Callable[[], str],
    field: str = "",
) -> HttpResponse:  # fmt: skip
    """`act` does it and returns what to tell the person; an error of the inbox's becomes what she is told. `field` is the name
    of a hidden field that goes along."""
    if request.method == "POST":
        try:
            messages.success(request, act())
        except InboxError as error:
            messages.error(request, str(error))
        return HttpResponseRedirect(back)
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
    context = {
        **site.each_context(request),
        "title": title,
        "question": question,
        "button": button,
        "back": back,
        "field": field,
    }
    return TemplateResponse(request, "admin/inbox/confirm.html", context)
