"""From content blocks to a Reply: what may run, what may be replayed, what people read.

A block is kept as it came, or not at all: a thinking block whose text were mended would no longer fit its signature.
Only plain text is mended, by a visible mark.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import uuid
from collections.abc import Iterable
from typing import Any

from agents.adapters.base import ModelError, Reply, ToolUse, Usage
from inbox.text import clean, is_blank

MAX_DEPTH = 64  # of nested JSON: far below Python's recursion limit, far above what tools take
_ID = re.compile(r"[A-Za-z0-9_-]{1,120}")  # what the Messages API takes back as an id
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_SURROGATE = re.compile("[\ud800-\udfff]")


# --- JSON
def dumps(value: Any) -> str:
    """The one encoding of blocks. It is the SDK's own, so that a stored block and a sent one are the same bytes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def parse_input(raw: str) -> dict[str, Any] | None:
    """The arguments written in `raw`, or None where they are not one JSON object that everything here can carry.

    No text at all means no arguments: so the API sends a call of a tool that takes none.
    """
    try:
        found = json.loads(joined(raw) or "{}", object_pairs_hook=_once)
    except (ValueError, RecursionError):  # ValueError: not JSON, or an integer of more than 4,300 digits
        return None
    return found if is_input(found) else None


def is_input(value: Any) -> bool:
    """Whether `value` can be a tool's input: a JSON object without NUL, lone surrogates or numbers beyond a float."""
    return isinstance(value, dict) and all(clean(part) == part for part in _leaves(value) if isinstance(part, str))


def is_sendable(value: Any) -> bool:
    """Whether `value` comes out of JSON and UTF-8 as it went in."""
    return not any(isinstance(part, str) and _SURROGATE.search(part) for part in _leaves(value))


_UNSENDABLE = "\ud800"  # what `_leaves` gives in place of something that JSON cannot carry


def _leaves(value: Any) -> Iterable[Any]:
    """Every key and every value inside, without recursion."""
    todo = [(value, 0)]
    while todo:
        part, depth = todo.pop()
        if depth > MAX_DEPTH or _is_beyond(part):
            yield _UNSENDABLE
        elif isinstance(part, dict):
            todo += ((inner, depth + 1) for pair in part.items() for inner in pair)
            if not all(isinstance(key, str) for key in part):
                yield _UNSENDABLE
        elif isinstance(part, list | tuple):
            todo += ((inner, depth + 1) for inner in part)
        elif part is None or isinstance(part, str | int | float):
            yield part
        else:
            yield _UNSENDABLE


def _is_beyond(part: Any) -> bool:
    """NaN, infinities, and integers that no float reaches."""
    return (isinstance(part, float) and not math.isfinite(part)) or (isinstance(part, int) and part.bit_length() > 1024)


def joined(text: str) -> str:
    """The text with surrogate pairs made one character: a sender that cuts a stream by UTF-16 units splits them."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


# --- Blocks
def settle(
    blocks: list[dict[str, Any]], stop_reason: str, taken: Iterable[str] = ()
) -> tuple[list[dict[str, Any]], list[ToolUse]]:
    """The blocks to replay, and the calls among them, with ids that none of `taken` has.

    The input of a tool use may be its raw JSON text. What is under way when max_tokens strikes is the last block: its
    input is never trusted, even where it reads as complete.
    """
    kept: list[dict[str, Any]] = []
    uses: list[ToolUse] = []
    ids = set(taken)
    for place, block in enumerate(blocks):
        if block.get("type") == "tool_use":
            cut = stop_reason == "max_tokens" and place == len(blocks) - 1
            own, use = _tool_use(block, cut, ids)
            kept.append(own)
            uses.append(use)
        elif block.get("type") == "text":
            # The API sends blank text now and then, and takes none back.
            if not is_blank((own := _text(block))["text"]):
                kept.append(own)
        elif is_sendable(block):
            kept.append(block)
    return kept, uses


def _tool_use(block: dict[str, Any], cut: bool, ids: set[str]) -> tuple[dict[str, Any], ToolUse]:
    raw, name, given = block.get("input"), block.get("name"), block.get("id")
    found = parse_input(raw) if isinstance(raw, str) else raw if is_input(raw) else None
    problem = "truncated" if cut else "invalid" if found is None else ""
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        problem = problem or "invalid"
        name = re.sub(r"[^A-Za-z0-9_-]", "_", str(name or "unnamed"))[:128]
    rest = {key: value for key, value in block.items() if key not in ("id", "name", "input")}
    use = ToolUse(_free_id(given, ids), name, None if problem else found, problem)
    return {
        **(rest if is_sendable(rest) else {"type": "tool_use"}),
        "id": use.id,
        "name": name,
        "input": use.input or {},
    }, use


def _free_id(given: Any, ids: set[str]) -> str:
    first = given if isinstance(given, str) and _ID.fullmatch(given) else f"toolu_{uuid.uuid4().hex}"
    free = next(name for n in itertools.count(1) if (name := first if n == 1 else f"{first}_{n}") not in ids)
    ids.add(free)
    return free


def _text(block: dict[str, Any]) -> dict[str, Any]:
    block = {**block, "text": clean(joined(str(block.get("text") or "")))}
    return block if is_sendable(block) else {"type": "text", "text": block["text"]}


def text_of(blocks: list[dict[str, Any]]) -> str:
    """What a person reads. Neighbouring text blocks are one text (citations split it), others are paragraphs."""
    groups = itertools.groupby(blocks, key=lambda block: block.get("type") == "text")
    return "\n\n".join("".join(block["text"] for block in group) for is_text, group in groups if is_text)


def ids_in(messages: list[dict[str, Any]]) -> set[str]:
    """The ids of the tool uses in a prompt. A provider that counts from 1 in every reply would repeat them."""
    return {
        str(block.get("id"))
        for message in messages
        if message.get("role") == "assistant" and isinstance(message.get("content"), list)
        for block in message["content"]
        if block.get("type") == "tool_use"
    }


def compose(
    blocks: list[dict[str, Any]], *, stop_reason: str, usage: Usage, model: str, taken: Iterable[str] = ()
) -> Reply:
    """The reply that these blocks are. Neither text nor a tool use: ModelError "empty"."""
    kept, uses = settle(blocks, stop_reason, taken)
    text = text_of(kept)
    if not text and not uses:
        raise ModelError("empty", f"It stopped with {stop_reason!r}.", usage=usage)
    return Reply(dumps(kept), text, tuple(uses), stop_reason, usage, model)
