"""What went wrong at the provider, or on the way there, as a ModelError. The table is in docs/reference/models.md."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from agents.adapters.base import ModelError
from inbox.text import clean

MAX_WAIT_S = 24 * 3600.0  # a longer Retry-After says no more than "not today"

# The kind of an error as the API names it, in an answer or in an event of a stream that began with 200.
BY_TYPE = {
    "overloaded_error": "overloaded",
    "rate_limit_error": "rate_limited",
    "timeout_error": "timeout",
    "api_error": "provider_error",
    "request_too_large": "too_long",
    "authentication_error": "auth",
    "permission_error": "auth",
    "billing_error": "auth",
    "not_found_error": "not_found",
    "invalid_request_error": "bad_request",
}
BY_STATUS = {
    401: "auth",
    402: "auth",
    403: "auth",
    404: "not_found",
    408: "timeout",
    409: "provider_error",
    413: "too_long",
    425: "provider_error",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
# The API has no code of its own for this one, only its words.
_TOO_LONG = re.compile(r"(prompt|input) is too long|context (window|length|limit)", re.IGNORECASE)


def fault(*, status: int, body: Any, headers: Mapping[str, str]) -> ModelError:
    """The error that this answer is. The kind in the body says more than the status, where it is known."""
    inner = body.get("error") if isinstance(body, dict) else None
    kind, said = (inner.get("type"), inner.get("message")) if isinstance(inner, dict) else (None, None)
    otherwise = "bad_request" if 400 <= status < 500 else "provider_error"
    reason = BY_TYPE.get(str(kind)) or BY_STATUS.get(status, otherwise)
    if reason == "bad_request" and _TOO_LONG.search(str(said)):
        reason = "too_long"
    if said is None:
        said = f"It answered with {headers.get('content-type', 'no content type')}."
    request_id = headers.get("request-id")
    detail = (
        f"[{status} {kind or ''}]".replace(" ]", "]") + f" {said}" + (f" (request {request_id})" if request_id else "")
    )
    return ModelError(reason, clean(detail, limit=1000), retry_after=retry_after(headers))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How many seconds the answer asks to wait: as milliseconds, as seconds or as a date (RFC 9110, 10.2.3)."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return _bounded(float(headers[name]) * unit)
        except (KeyError, ValueError):
            continue
    try:
        due = parsedate_to_datetime(headers["retry-after"]).timestamp()
    except (KeyError, ValueError, OverflowError):
        return None
    try:  # measured by the sender's own clock, where it tells the time
        now = parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError, OverflowError):
        now = time.time()
    return _bounded(due - now)


def _bounded(seconds: float) -> float | None:
    return min(max(seconds, 0.0), MAX_WAIT_S) if seconds == seconds else None  # nan is no time


def from_opening(error: Exception) -> ModelError:
    """An exception of the SDK before the reply began."""
    import anthropic
    import httpx2

    match error:
        case anthropic.APIStatusError():
            return fault(status=error.status_code, body=error.body, headers=error.response.headers)
        case anthropic.APITimeoutError():
            return ModelError("timeout")
        case anthropic.APIConnectionError():
            cause = error.__cause__
            if isinstance(cause, httpx2.LocalProtocolError | httpx2.UnsupportedProtocol):
                # It would never work. The cause is not quoted: it may hold the key.
                return ModelError("bad_request", "It cannot be sent: the base_url, the key or a header is malformed.")
            return ModelError("connection", f"{type(cause).__name__}: {cause}" if cause else "")
        case httpx2.HTTPError():  # the body of an error broke off
            return from_stream(error)
        case anthropic.CredentialsError():
            return ModelError("auth", str(error))
        case anthropic.AnthropicError():
            return ModelError("provider_error", str(error))
    # What is left was raised while the request was built: text that UTF-8 or a number that JSON cannot carry.
    return ModelError("bad_request", f"{type(error).__name__}: {clean(str(error), limit=500)}")


def from_stream(error: Exception) -> ModelError:
    """An exception while the reply came in. The SDK lets httpx2's pass as they are."""
    import httpx2

    match error:
        case httpx2.TimeoutException():
            return ModelError("timeout", "It fell silent in the middle of its reply.")
        case httpx2.DecodingError() | UnicodeDecodeError():
            return ModelError("provider_error", "It sent bytes that are no text.")
    return ModelError("cut_stream", f"{type(error).__name__}: {error}")
