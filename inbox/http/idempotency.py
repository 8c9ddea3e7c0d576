"""`Idempotency-Key` on every POST of the API, in one place: `inbox.http.edge` puts it around every operation.

1. Begin a transaction and hold the key; another call holds it: 409.
2. An earlier answer to the same body: that answer again. To another body: 422.
3. Run the route inside the transaction. An error rolls everything back and is not kept; a success is kept with its effect.
"""

import hashlib
import re
from collections.abc import Callable

from django.db import transaction
from django.http import HttpRequest, HttpResponse

from inbox.http import errors
from inbox.services import idempotency

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
KEY = re.compile(r"[\x21-\x7e]{1,200}")


def once(request: HttpRequest, caller: str, run: Callable[[], HttpResponse]) -> HttpResponse:
    """The answer of `run`, or the one that it gave before."""
    key = request.headers.get(HEADER)
    if key is None or request.method != "POST":
        return run()
    if not KEY.fullmatch(key):
        raise errors.BadIdempotencyKey
    place = (caller, request.path_info, key)
    body_hash = hashlib.sha256(request.body).hexdigest()
    with transaction.atomic():
        if not idempotency.lock(*place):
            raise errors.StillInFlight
        if earlier := idempotency.find(*place):
            return _again(earlier, body_hash)
        response = run()
        if response.status_code >= 400:
            transaction.set_rollback(True)
        else:
            idempotency.keep(*place, body_hash=body_hash, status=response.status_code, body=response.content.decode())
    return response


def _again(earlier: idempotency.Earlier, body_hash: str) -> HttpResponse:
    if earlier.body_hash != body_hash:
        raise errors.IdempotencyMismatch
    if earlier.body is None:
        raise errors.AnswerUnreadable
    response = HttpResponse(earlier.body, status=earlier.status, content_type="application/json; charset=utf-8")
    response[REPLAYED] = "true"
    return response
