"""Every error as RFC 9457 problem+json: a stable `type`, a `detail` that says what to do, and the error's facts as members."""

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from django.core.exceptions import BadRequest, PermissionDenied, RequestDataTooBig
from django.core.serializers.json import DjangoJSONEncoder
from django.db import InterfaceError, InternalError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.request import UnreadablePostError
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from inbox import pool
from inbox.http import errors

log = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"
INFRASTRUCTURE = (OperationalError, InternalError, InterfaceError)
RETRY_AFTER_S = 2
RESERVED = {"type", "title", "status", "detail", "instance"}

# Types of problems that have no error class of their own, by status.
PLAIN = {
    400: ("bad-request", "The request cannot be read. Check its address, headers and body."),
    401: ("not-authenticated", errors.NotAuthenticated.__doc__ or ""),
    403: ("not-allowed", "You may not do this."),
    404: ("not-found", "There is nothing at this address, or nothing that you may see."),
    405: ("method-not-allowed", "This address does not take this method; the header Allow names those that it does."),
    413: ("body-too-large", errors.BodyTooLarge.__doc__ or ""),
    500: ("internal", "Something broke here. It has been logged; nothing that was answered with success is lost."),
    503: (
        "unavailable",
        "The database does not answer just now. Nothing was changed; send the same call again in a moment.",
    ),
}


def problem(status: int, slug: str, detail: str, facts: Mapping[str, Any] | None = None) -> HttpResponse:
    """The response. `facts` become members beside the five of the standard, which they cannot replace."""
    body = {
        "type": f"urn:glove:problem:{slug}",
        "title": slug.replace("-", " ").capitalize(),
        "status": status,
        "detail": detail,
        **{name: value for name, value in (facts or {}).items() if name not in RESERVED},
    }
    response = HttpResponse(json.dumps(body, cls=DjangoJSONEncoder), status=status, content_type=CONTENT_TYPE)
    if status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="glove"'
    if status == 503:
        response["Retry-After"] = str(RETRY_AFTER_S)
    return response


def plain(status: int, facts: Mapping[str, Any] | None = None) -> HttpResponse:
    """The problem of a status about which nothing more is known."""
    known = PLAIN.get(status)
    if known is None:
        known = PLAIN[500] if status >= 500 else (_phrase(status).lower().replace(" ", "-"), _phrase(status) + ".")
    return problem(status, *known, facts)


def from_error(error: Exception) -> HttpResponse | None:
    """The problem that an error is, or None for one that nobody foresaw."""
    if isinstance(error, HttpError) and error.__cause__ is not None:
        # ninja wraps whatever a parser raised in a 400.
        return from_error(error.__cause__) if isinstance(error.__cause__, Exception) else plain(error.status_code)
    if all(hasattr(error, name) for name in ("slug", "status", "facts")):
        return _own(error)
    if isinstance(error, ValidationError):
        return invalid(error)
    if isinstance(error, INFRASTRUCTURE):
        log.warning("The database failed a request: %s", error)
        pool.discard_dead()
        return plain(503)
    for kind, status in STATUSES:
        if isinstance(error, kind):
            return plain(status)
    return plain(error.status_code) if isinstance(error, HttpError) else None


STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (AuthenticationError, 401),
    (Http404, 404),
    (PermissionDenied, 403),
    (RequestDataTooBig, 413),
    (BadRequest, 400),
    (UnreadablePostError, 400),
)


def invalid(error: ValidationError) -> HttpResponse:
    """Names each field that is wrong, where it is, and what is wrong with it."""
    found = [{"in": str(one["loc"][0]), "field": _field(one["loc"]), "problem": one["msg"]} for one in error.errors]
    detail = " ".join(f"{one['field'] or one['in']}: {one['problem']}." for one in found)
    return problem(422, "invalid", detail, {"errors": found})


def install(api: NinjaAPI) -> None:
    """Let this API answer every error as a problem."""

    def answer(request: HttpRequest, error: Any) -> HttpResponse:
        response = from_error(error)
        # What outlives the refusal is written by the edge, after the rollback.
        request._glove_remember = getattr(error, "remember", None)  # type: ignore[attr-defined]
        if response is None:
            raise error  # to Django, which logs it and answers 500; the middleware makes that a problem
        return response

    for kind in (Exception, HttpError, Http404, ValidationError):
        api.add_exception_handler(kind, answer)


def _own(error: Any) -> HttpResponse:
    if error.status >= 500:
        log.error("%s", error, exc_info=error)
    return problem(error.status, error.slug, str(error), error.facts)


def _field(place: tuple[Any, ...]) -> str:
    """`title` or `todos.0.content`; ninja puts the source first, and the name of the function's argument before a body's fields."""
    names = place[2:] if place[0] == "body" else place[1:]
    return ".".join(str(name) for name in names)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
