"""What can be wrong with a call before any service sees it. The docstring is the message, unless the raiser says it better."""

from inbox.errors import InboxError


class NotAuthenticated(InboxError):
    """Send a valid key as `Authorization: Bearer <key>`, or sign in and send the session cookie."""

    slug, status = "not-authenticated", 401


class CsrfFailed(InboxError):
    """A call with a session cookie needs the CSRF token: send the value of the csrftoken cookie as the header X-CSRFToken."""

    slug, status = "csrf", 403


class ScopeMissing(InboxError):
    """This key does not have the scope for this call."""

    slug, status = "scope", 403


class MalformedJson(InboxError):
    """The body is not JSON."""

    slug, status = "malformed-json", 400


class DuplicateKey(InboxError):
    """The body names a key of an object twice. Name each once."""

    slug, status = "duplicate-key", 400


class RepeatedParameter(InboxError):
    """A parameter stands twice in the query string. Name each once."""

    slug, status = "repeated-parameter", 422


class UnknownParameter(InboxError):
    """The query string names a parameter that this address does not take. Check its spelling."""

    slug, status = "unknown-parameter", 422


class TooDeep(InboxError):
    """The body is nested too deeply."""

    slug, status = "too-deep", 400


class BadNumber(InboxError):
    """The body holds a number that cannot be stored."""

    slug, status = "bad-number", 422


class BodyTooLarge(InboxError):
    """The body is larger than 1 MiB. Send less."""

    slug, status = "body-too-large", 413


class WrongContentType(InboxError):
    """Send the body as JSON, with the header Content-Type: application/json."""

    slug, status = "content-type", 415


class BadCursor(InboxError):
    """This cursor is not one that this list has given. Send `next` of the page before as it is, or begin without a cursor."""

    slug, status = "bad-cursor", 422


class BadIdempotencyKey(InboxError):
    """An Idempotency-Key is 1 to 200 visible ASCII characters."""

    slug, status = "bad-idempotency-key", 422


class IdempotencyMismatch(InboxError):
    """This Idempotency-Key came before with another body. Use a new key for a new call."""

    slug, status = "idempotency-mismatch", 422


class StillInFlight(InboxError):
    """The first call with this Idempotency-Key has not ended yet. Send the same call again in a moment."""

    slug, status = "still-in-flight", 409


class AnswerUnreadable(InboxError):
    """The call with this Idempotency-Key was done, but the site's secret has changed and its answer cannot be read any more."""

    slug, status = "answer-unreadable", 409
