"""Who calls: a key in the Authorization header decides alone; without one, a session with its CSRF token."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from ninja.security import HttpBearer
from ninja.utils import check_csrf

from inbox.http import errors
from inbox.models import ApiKey
from inbox.services import keys


@dataclass(frozen=True)
class Caller:
    """The user, and the key that she came with, if any. `request.auth` of every route."""

    user: Any
    key: ApiKey | None = None

    @property
    def id(self) -> str:
        """Names this caller among all; her idempotency keys are her own."""
        return f"key:{self.key.pk}" if self.key else f"user:{self.user.pk}"

    def may_use(self, scope: str) -> bool:
        """Whether the key reaches this far. A session, or a key without scopes, may do what its user may."""
        return not self.key or not self.key.scopes or scope in self.key.scopes

    def require(self, scope: str) -> None:
        """Raises ScopeMissing."""
        if not self.may_use(scope):
            raise errors.ScopeMissing(
                f"This key does not have the scope {scope!r}. Use a key that has it.", scope=scope
            )

    def has_right(self, scope: str, permission: str) -> bool:
        """For what a key may be given beyond its user's own rights: the scope, named on the key, or the user's permission."""
        return scope in self.key.scopes if self.key and self.key.scopes else self.user.has_perm(permission)


class Call(HttpRequest):
    """A request of somebody who was let in; only a name for the type of every route's `request`."""

    auth: Caller


class KeyOrSession(HttpBearer):
    """401 without valid credentials, 403 for a session that writes without its CSRF token. Asked twice, it looks once."""

    csrf = True  # the docs page then sends the token

    def __call__(self, request: HttpRequest) -> Caller:
        caller = getattr(request, "_glove_caller", None)
        if caller is None:
            caller = self.by_key(request) if "Authorization" in request.headers else self.by_session(request)
            request._glove_caller = caller  # type: ignore[attr-defined]
        return caller

    def by_key(self, request: HttpRequest) -> Caller:
        scheme, _, plaintext = request.headers["Authorization"].partition(" ")
        caller = self.authenticate(request, plaintext.strip()) if scheme.lower() == "bearer" else None
        if caller is None:
            raise errors.NotAuthenticated(
                "This key is not valid: it is wrong, was revoked, or its user is inactive. Send another."
            )
        return caller

    def by_session(self, request: HttpRequest) -> Caller:
        if not request.user.is_authenticated:
            raise errors.NotAuthenticated
        if check_csrf(request):
            raise errors.CsrfFailed
        return Caller(request.user)

    def authenticate(self, request: HttpRequest, token: str) -> Caller | None:
        key = keys.find_key(token)
        if key is None:
            return None
        request.user = key.user
        return Caller(key.user, key)
