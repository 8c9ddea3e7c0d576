"""JSON as strictly as it is stored, for the API and the webhooks: what a database, a model's API or another reader of the same
text would refuse or read in another way is refused here."""

import json
import math
import re
from collections.abc import Iterable
from typing import Any, NoReturn

from django.http import HttpRequest, RawPostDataException
from django.utils.datastructures import MultiValueDict
from ninja.parser import Parser

from inbox import text
from inbox.errors import UnstorableText
from inbox.http import errors

MAX_DEPTH = 64
MAX_INT = 2**63 - 1
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def parse_json(raw: bytes) -> Any:
    """The value of a JSON text in UTF-8.

    Raises MalformedJson, DuplicateKey, TooDeep, BadNumber (NaN, Infinity, 1e400, integers beyond 64 bits) and UnstorableText
    (NUL and lone surrogates, in keys and values at any depth).
    """
    try:
        value = json.loads(
            raw.decode(),
            object_pairs_hook=_object,
            parse_constant=_not_a_number,
            parse_float=_finite,
            parse_int=_bounded,
        )
    except UnicodeDecodeError as error:
        raise errors.MalformedJson(
            f"The body is not UTF-8: the byte at position {error.start} is not part of it."
        ) from error
    except json.JSONDecodeError as error:
        raise errors.MalformedJson(
            f"The body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.",
            line=error.lineno,
            column=error.colno,
        ) from error
    except RecursionError as error:
        raise errors.TooDeep(f"The body is nested more than {MAX_DEPTH} levels deep.") from error
    check_strings(value)
    return value


def check_strings(value: Any, where: str = "") -> None:
    """Walk keys and values, without recursion: UnstorableText for NUL and lone surrogates, TooDeep past MAX_DEPTH."""
    left = [(value, where, 1)]
    while left:
        current, path, depth = left.pop()
        if isinstance(current, str):
            _storable(current, path or "The body")
        elif isinstance(current, dict | list):
            if depth > MAX_DEPTH:
                raise errors.TooDeep(f"The body is nested more than {MAX_DEPTH} levels deep.")
            if isinstance(current, dict):
                for key in current:
                    _storable(key, f"A key in {path or 'the body'}")
            children = current.items() if isinstance(current, dict) else enumerate(current)
            left.extend((child, f"{path}.{name}".strip("."), depth + 1) for name, child in children)


def check_query(query: MultiValueDict[str, Any]) -> None:
    """The same for the query string's names and values."""
    for name, values in query.lists():
        _storable(name, "A name in the query string")
        for value in values:
            _storable(value, name)


def check_names(query: MultiValueDict[str, Any], known: list[str]) -> None:
    """UnknownParameter where the query string names what is not known here: a misspelt filter would let everything through."""
    if unknown := [name for name in query if name not in known]:
        shown = ", ".join(repr(text.clean(name[:60])) for name in unknown[:5])
        takes = f"takes {', '.join(known)}" if known else "takes no parameters"
        raise errors.UnknownParameter(
            f"Unknown in the query string: {shown}. Check the spelling: this address {takes}.", known=known
        )


def has_body(request: HttpRequest) -> bool:
    """Whether the caller sent one. A form that somebody has read already counts."""
    try:
        return bool(request.body)
    except RawPostDataException:
        return True


def require_json(request: HttpRequest) -> None:
    """WrongContentType where a body came as anything but application/json in UTF-8."""
    if not has_body(request):
        return
    charset = (request.content_params or {}).get("charset", "utf-8").lower()
    if request.content_type != "application/json" or charset not in ("utf-8", "utf8", "us-ascii"):
        raise errors.WrongContentType(content_type=text.clean(request.headers.get("Content-Type", "")[:200]))


class StrictParser(Parser):
    """The API's parser."""

    def parse_body(self, request: HttpRequest) -> Any:
        return parse_json(request.body)

    def parse_querydict(
        self, data: MultiValueDict[str, Any], list_fields: list[str], request: HttpRequest
    ) -> dict[str, Any]:
        repeated = [name for name in data if name not in list_fields and len(data.getlist(name)) > 1]
        if repeated:
            raise errors.RepeatedParameter(f"{', '.join(repeated)} stands twice in the query string. Name each once.")
        return super().parse_querydict(data, list_fields, request)


def _storable(words: str, what: str) -> None:
    if found := UNSTORABLE.search(words):
        what = text.clean(what[:100])
        raise UnstorableText(
            f"{what} holds U+{ord(found[0]):04X} at position {found.start()}, which cannot be stored. Remove it."
        )


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise errors.DuplicateKey(
                f"The body names the key {text.clean(key[:60])!r} twice in one object. Name it once."
            )
        found[key] = value
    return found


def _not_a_number(word: str) -> NoReturn:
    raise errors.BadNumber(f"{word} is not a number of JSON. Leave it out, or send null.")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise errors.BadNumber(f"{digits[:40]} is beyond what can be stored. Send a smaller number, or a string.")
    return number


def _bounded(digits: str) -> int:
    # The length first: Python refuses to read thousands of digits, and reading them would take long.
    if len(digits) > 20 or abs(int(digits)) > MAX_INT:
        raise errors.BadNumber(f"{digits[:40]} is beyond 64 bits. Send a smaller number, or a string.")
    return int(digits)
