"""The one API, with what every route has in common: strict input, who calls, problems, idempotency, a true description."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.openapi.docs import Swagger
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation

from inbox.http import idempotency, openapi, parser, problems
from inbox.http.auth import KeyOrSession
from inbox.http.middleware import POLICY

Run = Callable[..., HttpResponse]


class LocalDocs(Swagger):
    """Swagger from ninja's own static files, so that nothing is fetched from elsewhere. Its style sheet holds small images."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        response = super().render_page(request, api, **kwargs)
        response.headers["Content-Security-Policy"] = f"{POLICY}; img-src 'self' data:"
        return response


class EdgeAPI(NinjaAPI):
    """A NinjaAPI whose routes cannot forget the edge: it stands around each operation, in whichever router it is declared."""

    def __init__(self, **options: Any) -> None:
        self.gate = KeyOrSession()
        super().__init__(parser=parser.StrictParser(), auth=[self.gate], docs=LocalDocs(), **options)
        problems.install(self)
        self.add_decorator(self._edge, mode="view")

    def get_openapi_schema(self, **options: Any) -> OpenAPISchema:
        return openapi.complete(super().get_openapi_schema(**options))

    def get_openapi_operation_id(self, operation: Operation) -> str:
        app = operation.view_func.__module__.partition(".")[0]
        return f"{app}_{operation.view_func.__name__}"

    def _edge(self, run: Run) -> Run:
        """1. Who calls. 2. Is what she sent fit to read. 3. Has she sent it before. 4. The route."""
        known = _parameters(run)

        @wraps(run)
        def answer(request: HttpRequest, **path: Any) -> HttpResponse:
            try:
                caller = self.gate(request)
                parser.check_query(request.GET)
                parser.check_names(request.GET, known)
                parser.check_strings(path, "The address")
                parser.require_json(request)
                response = idempotency.once(request, caller.id, lambda: run(request, **path))
                if remember := getattr(request, "_glove_remember", None):
                    remember()
                return response
            except Exception as error:
                return self.on_exception(request, error)

        return answer


def _parameters(run: Run) -> list[str]:
    """What the route takes in the query string. Ninja decorates the method `run` of its operation, perhaps more than once."""
    operation: Operation = inspect.unwrap(run).__self__
    queries = [model for model in operation.models if model.__ninja_param_source__ == "query"]
    return [name for model in queries for name in model.__ninja_flatten_map__]
