"""Exports: streamed, in stretches that each are one look-up by key, and safe to open in a spreadsheet.

A text that a spreadsheet would take for a formula gets an apostrophe in front (OWASP, "CSV Injection"); numbers stay numbers.
"""

import csv
import datetime
import io
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

from asgiref.sync import sync_to_async
from django.core.exceptions import BadRequest
from django.core.handlers.asgi import ASGIRequest
from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone
from django.utils.text import slugify

from inbox.text import is_hidden

BATCH = 500
FORMULA = tuple("=+-@\t\r\n＝＋－＠")
KINDS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}

Columns = dict[str, Callable[[Any], Any]]


def stream(request: HttpRequest, rows: QuerySet[Any], columns: Columns, name: str) -> StreamingHttpResponse:
    """The rows as a download, oldest first; `?format=json` or CSV."""
    kind = request.GET.get("format", "csv")
    if kind not in KINDS:
        raise BadRequest("format is csv or json")
    parts = (_csv if kind == "csv" else _json)(batches(rows), columns)
    content = _in_threads(parts) if isinstance(request, ASGIRequest) else parts
    response = StreamingHttpResponse(content, content_type=KINDS[kind])
    filename = f"{slugify(name)}-{timezone.now():%Y-%m-%d}.{kind}"
    response["Content-Disposition"] = f'attachment; filename="{filename}"'
    return response


def batches(rows: QuerySet[Any]) -> Iterator[list[Any]]:
    """The rows by key, BATCH at a time: no transaction and no connection is held between two of them."""
    last = 0
    while batch := list(rows.filter(pk__gt=last).order_by("pk")[:BATCH]):
        yield batch
        last = batch[-1].pk


def safe(value: Any) -> Any:
    """A cell that a spreadsheet shows and does not compute."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return value
    text = _plain(value)
    seen = next((char for char in text if char in FORMULA or not (char.isspace() or is_hidden(char))), "")
    return f"'{text}" if seen in FORMULA and seen else text


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime.datetime) else str(value)


def _csv(found: Iterable[list[Any]], columns: Columns) -> Iterator[str]:
    yield _lines([list(columns)])
    for batch in found:
        yield _lines([[safe(read(row)) for read in columns.values()] for row in batch])


def _lines(table: list[list[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(table)
    return text.getvalue()


def _json(found: Iterable[list[Any]], columns: Columns) -> Iterator[str]:
    before = "[\n"
    for batch in found:
        cells = ({name: read(row) for name, read in columns.items()} for row in batch)
        yield before + ",\n".join(json.dumps(row, default=_plain, ensure_ascii=False) for row in cells)
        before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


async def _in_threads(parts: Iterator[str]) -> AsyncIterator[str]:
    """The same under ASGI: each stretch is read in the request's own thread, so that the loop goes on."""
    following = sync_to_async(lambda: next(parts, None))
    while (part := await following()) is not None:
        yield part
