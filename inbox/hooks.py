"""POST /hooks/<name>: an outside service tells what happened; a declared function turns it into an answer.

1. The hook of this name, or 404.
2. Its `verify` over the raw body, or 401. Nothing is parsed before.
3. An event that had its effect: 202, nothing more.
4. The payload, as strictly as the API reads it. The function, with no transaction open; what it raises is a 500, nothing is
   changed, and the sender may send the event again.
5. Receipt and answers in one transaction: 202.
"""

import logging
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from inbox import declare
from inbox.errors import BadSignature, HookFailed, UnknownHook
from inbox.http import parser, problems
from inbox.services import webhooks

log = logging.getLogger(__name__)

FORM = "application/x-www-form-urlencoded"


@csrf_exempt
@require_POST
def receive(request: HttpRequest, name: str) -> HttpResponse:
    """The view. Errors are problem+json."""
    try:
        return JsonResponse({"resolved": _receive(request, name)}, status=202)
    except Exception as error:
        response = problems.from_error(error)
        if response is None:
            raise
        return response


def _receive(request: HttpRequest, name: str) -> int:
    hook = declare.get_webhook(name)
    if hook is None:
        raise UnknownHook
    _ = request.body  # all of it, or the 413 that it is, before anybody else reads it
    if not _is_verified(hook, request):
        raise BadSignature
    event_id = _event_id(hook, request)
    if webhooks.is_known(hook.name, event_id):
        return 0
    answer = _call(hook, _payload(request))
    return len(webhooks.take(hook.name, event_id, answer))


def _is_verified(hook: declare.Webhook, request: HttpRequest) -> bool:
    """Exactly True: a verify that forgot its return, or returns what it parsed, verifies nothing."""
    try:
        return hook.verify(request) is True
    except Exception:
        log.warning("The verify of the webhook %s failed; the request counts as not signed.", hook.name, exc_info=True)
        return False


def _event_id(hook: declare.Webhook, request: HttpRequest) -> str | None:
    try:
        return hook.event_id(request)
    except Exception as error:
        raise HookFailed from error


def _payload(request: HttpRequest) -> Any:
    """The QueryDict of a form; everything else is read as JSON, since some services send that as text/plain."""
    if request.content_type == FORM:
        parser.check_query(request.POST)
        return request.POST
    return parser.parse_json(request.body)


def _call(hook: declare.Webhook, payload: Any) -> tuple[str, str] | None:
    try:
        answer = hook(payload)
    except Exception as error:
        raise HookFailed from error
    if answer is None or (isinstance(answer, tuple) and len(answer) == 2):
        return answer
    raise HookFailed from TypeError(
        f"The webhook {hook.name} returned {type(answer).__name__}, not (tag, answer) or None."
    )
