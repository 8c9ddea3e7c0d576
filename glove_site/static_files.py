"""Static files, found by Django's finders and served by the web process itself, so that nothing has to be collected."""

from collections.abc import AsyncIterator, Iterable
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from whitenoise.middleware import WhiteNoiseMiddleware


class StaticFiles(WhiteNoiseMiddleware):
    """Whitenoise for ASGI: Django warns about a response whose parts come from a plain iterator, so these come from an
    asynchronous one, each part read in a thread."""

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponseBase:
        response = WhiteNoiseMiddleware.serve(static_file, request)
        if hasattr(request, "scope"):
            response.streaming_content = _parts(response.streaming_content)
        return response


async def _parts(content: Iterable[bytes]) -> AsyncIterator[bytes]:
    parts = iter(content)
    read = sync_to_async(lambda: next(parts, None))
    while (part := await read()) is not None:
        yield part
