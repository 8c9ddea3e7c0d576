"""The outermost middleware: errors of the machine-read addresses as problem+json whoever made them, and headers of safety."""

import json
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

from inbox.http import problems

API = "/api/v1"
MACHINE_READ = (API, "/hooks", "/healthz", "/readyz", "/metrics")
NEVER_STORED = (API, "/hooks", "/r")

POLICY = "; ".join(
    (
        "default-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)


def is_under(path: str, roots: tuple[str, ...]) -> bool:
    """Whether the path is one of these addresses or below one."""
    return any(path == root or path.startswith(f"{root}/") for root in roots)


class ProblemMiddleware(MiddlewareMixin):
    """A caller that reads JSON gets JSON: Django's own 404, 405, 400 and 500 become problems too."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponseBase | None:
        return problems.from_error(error) if is_under(request.path_info, MACHINE_READ) else None

    def process_response(self, request: HttpRequest, response: Any) -> HttpResponseBase:
        kind = response.get("Content-Type", "").partition(";")[0]
        if response.status_code < 400 or kind == problems.CONTENT_TYPE or not is_under(request.path_info, MACHINE_READ):
            return response
        known = problems.plain(response.status_code, _members(response, kind))
        for name, value in response.items():  # Allow, and what other middleware has set
            if name not in ("Content-Type", "Content-Length"):
                known.headers[name] = value
        known.cookies = response.cookies
        return known


class SafetyMiddleware(MiddlewareMixin):
    """Nothing of another site runs, and no page is framed, on any page of this one; answers of the API are not stored."""

    def process_response(self, request: HttpRequest, response: Any) -> HttpResponseBase:
        response.headers.setdefault("Content-Security-Policy", POLICY)
        if is_under(request.path_info, NEVER_STORED):
            response.headers.setdefault("Cache-Control", "no-store")
        return response


def _members(response: Any, kind: str) -> dict[str, Any]:
    """What a view said in JSON of its own stays, as members of the problem."""
    if kind != "application/json" or response.streaming:
        return {}
    try:
        found = json.loads(response.content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
