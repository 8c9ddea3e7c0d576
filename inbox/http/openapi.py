"""What ninja's description leaves out: both ways to authenticate, errors as problem+json, the Idempotency-Key."""

from http import HTTPStatus
from typing import Any

from django.conf import settings
from ninja.openapi.schema import OpenAPISchema

from inbox.http.idempotency import HEADER
from inbox.http.problems import CONTENT_TYPE

PROBLEM = {
    "title": "Problem",
    "description": "An error, after RFC 9457. It may have more members, by its type; docs/reference/api.md lists them.",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "pattern": "^urn:glove:problem:[a-z0-9-]+$"},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string", "description": "What is wrong, and what to do."},
    },
}
IDEMPOTENCY_KEY = {
    "in": "header",
    "name": HEADER,
    "required": False,
    "description": "Repeats of this call with the same key and body within 24 hours get the first answer again.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,200}$"},
}
EVERYWHERE = (401, 403, 404, 422, 503)
ON_WRITES = (400, 409, 413, 415, 429)


def complete(schema: OpenAPISchema) -> OpenAPISchema:
    """The description with these parts added."""
    components = schema["components"]
    components["schemas"]["Problem"] = PROBLEM
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "A key of `manage.py create_api_key`."},
        "session": {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME},
        "csrf": {
            "type": "apiKey",
            "in": "header",
            "name": "X-CSRFToken",
            "description": "The csrftoken cookie's value.",
        },
    }
    for path in schema["paths"].values():
        for method, operation in path.items():
            _complete(operation, writes=method != "get")
    return schema


def _complete(operation: dict[str, Any], *, writes: bool) -> None:
    for parameter in operation["parameters"]:
        parameter["schema"] = _without_null(parameter["schema"])
    session: dict[str, list[str]] = {"session": [], **({"csrf": []} if writes else {})}
    operation["security"] = [{"key": []}, session]
    for status in sorted({*EVERYWHERE, *(ON_WRITES if writes else ())}):
        operation["responses"][status] = {
            "description": HTTPStatus(status).phrase,
            "content": {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    if writes:
        operation["parameters"] = [*operation["parameters"], IDEMPOTENCY_KEY]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A query string has no null: a parameter is left out."""
    kinds = [kind for kind in schema.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return schema
    return {**kinds[0], **{name: value for name, value in schema.items() if name != "anyOf"}}
