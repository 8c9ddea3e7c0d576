"""The customer's page. All that it shows comes from the JSON API, with the customer's own session."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from inbox.text import MAX_BYTES


@require_safe
@never_cache
@login_required
@ensure_csrf_cookie
def talk(request: HttpRequest) -> HttpResponse:
    """Talk to an agent; beside it, its tasks and what it waits for."""
    return render(request, "demo/talk.html", {"message_bytes": MAX_BYTES})
