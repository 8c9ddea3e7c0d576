"""Small tables that people write in any editor: read anew each time, never written, and what is wrong with a line is told.

A sheet has a header and a line for each row. Lines that are blank or begin with # are skipped. A line that cannot be used is left
out and told, and never costs the others."""

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path

from demo.errors import SheetUnreadable

MAX_BYTES = 256 * 1024


def text_of(file: Path, what: str) -> str:
    """The file as it is now; `what` is what it is called. Raises SheetUnreadable where it cannot be used at all."""
    try:
        with file.open("rb") as source:
            data = source.read(MAX_BYTES + 1)
    except OSError as error:
        raise SheetUnreadable(f"The {what} {file} cannot be read ({error.strerror}). Put it back.") from error
    if len(data) > MAX_BYTES:
        raise SheetUnreadable(f"The {what} {file} is larger than {MAX_BYTES} bytes. That is not a {what}.")
    try:
        return data.decode("utf-8-sig")  # spreadsheets put a mark in front
    except UnicodeDecodeError as error:
        raise SheetUnreadable(f"The {what} {file} is not UTF-8 text. Save it as UTF-8.") from error


def rows(text: str, columns: list[str], what: str, take: Callable[[list[str]], str]) -> Iterator[str]:
    """Give each row to `take`, which says what is wrong with it, or nothing; yields that of the lines which were left out."""
    header_seen = False
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        cells = _cells(line)
        if not header_seen:
            if [cell.lower() for cell in cells] != columns:
                raise SheetUnreadable(f"Line {number} of the {what} must be the header: {','.join(columns)}")
            header_seen = True
            continue
        fault = take(cells) if len(cells) == len(columns) else f"it has {len(cells)} values, not {len(columns)}"
        if fault:
            yield f"Line {number} of the {what} is left out: {fault}."
    if not header_seen:
        raise SheetUnreadable(f"The {what} is empty. Its first line must be: {','.join(columns)}")


def _cells(line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader(io.StringIO(line)), [])]
    except csv.Error:
        return []
