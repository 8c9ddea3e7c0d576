"""What the fault server does at one request: a reply, or one of the faults by name.

`FAULTS` names them all. Each takes at most one argument, so that a command line can give it: `rate_limited:300`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from agents.testing.wire import streamed

Block = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One answer. With `events` a stream of them (or the same as one JSON message), else `body`.

    `ending` is how the connection ends: properly, cut, or not at all. A body that ends properly but too soon has
    fewer events. `delay` is in seconds.
    """

    name: str
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    content_type: str = "application/json"
    events: tuple[dict[str, Any], ...] = ()
    ending: Literal["finish", "cut", "hang"] = "finish"
    delay: float = 0.0


# --- Replies
def text(said: str = "Hello from the fault server.") -> Block:
    return {"type": "text", "text": said}


def tool(name: str, arguments: dict[str, Any] | str | None = None, *, id: str = "") -> Block:  # noqa: A002
    """A tool use. Its arguments may be raw JSON text, valid or not."""
    return {"type": "tool_use", "id": id, "name": name, "input": {} if arguments is None else arguments}


def thinking(said: str, signature: str) -> Block:
    return {"type": "thinking", "thinking": said, "signature": signature}


def reply(*blocks: Block | str, stop_reason: str | None = "", name: str = "reply", piece: int = 12) -> Step:
    """A whole reply, streamed in pieces of `piece` characters."""
    whole = [text(block) if isinstance(block, str) else block for block in blocks]
    if stop_reason == "":
        stop_reason = "tool_use" if any(block["type"] == "tool_use" for block in whole) else "end_turn"
    return Step(name, events=tuple(streamed(whole, stop_reason, piece)))


def step_of(said: Any) -> Step:
    """What a script may give: a Step, a text, a block or a list of them."""
    if isinstance(said, Step):
        return said
    return reply(*(said if isinstance(said, list | tuple) else [said]))


# --- Faults
def error(status: int, kind: str, message: str, *, name: str, headers: dict[str, str] | None = None) -> Step:
    """An error as the API words it."""
    return Step(name, status, headers or {}, json.dumps(_error(kind, message)))


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_fault"}


_CALL: list[Block | str] = ["Let me look.", tool("refund", '{"amount": 1000}', id="toolu_cut")]
Where = Literal["before", "in", "after"]


def broken(where: Where, ending: Literal["finish", "cut"]) -> Step:
    """A reply that calls `refund` with the amount 1000, and ends before, in or after the input: inside it, at 10."""
    events = reply(*_CALL, piece=len('{"amount": 10')).events
    kinds = [(event["type"], event.get("index")) for event in events]
    place = {
        "before": kinds.index(("content_block_start", 1)),
        "in": kinds.index(("content_block_stop", 1)) - 1,
        "after": kinds.index(("content_block_stop", 1)) + 1,
    }[where]
    verb = "cut" if ending == "cut" else "ends"
    return Step(f"{verb}_{where}_tool", events=events[:place], ending=ending)


def rate_limited(retry_after: str = "") -> Step:
    """429; with an argument, a Retry-After of so many seconds, or the date that it is."""
    headers = {"retry-after": retry_after} if retry_after else {}
    return error(429, "rate_limit_error", "Too many requests.", name="rate_limited", headers=headers)


def overloaded_in_stream() -> Step:
    """A stream that begins with 200, and some text, and then says that the provider is overloaded."""
    events = reply("Let me look.").events[:3]
    return Step("overloaded_in_stream", events=(*events, _error("overloaded_error", "Overloaded")))


def hang(seconds: str = "3600") -> Step:
    """No answer for so long, then one that nobody should be waiting for."""
    return dataclasses.replace(reply("Too late."), name="hang", delay=float(seconds))


def hang_in_stream() -> Step:
    return dataclasses.replace(broken("in", "cut"), name="hang_in_stream", ending="hang")


def html(status: str = "200") -> Step:
    """A proxy's page in place of an answer."""
    page = "<!doctype html><html><body><h1>Down for maintenance</h1></body></html>"
    return Step("html", int(status), body=page, content_type="text/html; charset=utf-8")


def refusal() -> Step:
    step = reply(stop_reason="refusal")
    details = {"type": "refusal", "category": None, "explanation": "This cannot be answered."}
    events = tuple(
        {**event, "delta": {**event["delta"], "stop_details": details}} if event["type"] == "message_delta" else event
        for event in step.events
    )
    return dataclasses.replace(step, name="refusal", events=events)


def unknown_block() -> Step:
    block = {"type": "hologram", "data": {"zero": -0.0, "big": 2**70, "b": 1, "a": 2}}
    return reply(block, "A hologram, as you see.", name="unknown_block")


def duplicate_tool_ids() -> Step:
    first, second = (tool("look_up", {"sku": sku}, id="toolu_same") for sku in ("beans", "milk"))
    return reply(first, second, name="duplicate_tool_ids")


def pause_turn() -> Step:
    """The API stops to breathe while it runs a tool of its own, and goes on when the reply is sent back."""
    own = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "beans"}}
    found: Block = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    return reply("Looking.", own, found, stop_reason="pause_turn", name="pause_turn")


FAULTS: dict[str, Callable[..., Step]] = {
    "rate_limited": rate_limited,
    "error_500": lambda: error(500, "api_error", "Internal server error", name="error_500"),
    "bad_gateway": lambda: Step("bad_gateway", 502, body="Bad gateway", content_type="text/plain"),
    "unavailable": lambda: Step("unavailable", 503, body="Unavailable", content_type="text/plain"),
    "gateway_timeout": lambda: Step("gateway_timeout", 504, body="Timeout", content_type="text/plain"),
    "overloaded": lambda: error(529, "overloaded_error", "Overloaded", name="overloaded"),
    "overloaded_in_stream": overloaded_in_stream,
    "cut_before_tool": lambda: broken("before", "cut"),
    "cut_in_tool": lambda: broken("in", "cut"),
    "cut_after_tool": lambda: broken("after", "cut"),
    "ends_before_tool": lambda: broken("before", "finish"),
    "ends_in_tool": lambda: broken("in", "finish"),
    "ends_after_tool": lambda: broken("after", "finish"),
    "disconnect": lambda: Step("disconnect", status=0),
    "hang": hang,
    "hang_in_stream": hang_in_stream,
    "html": html,
    "refusal": refusal,
    "empty": lambda: reply(name="empty"),
    "max_tokens_in_text": lambda: reply("And then the", stop_reason="max_tokens", name="max_tokens_in_text"),
    "max_tokens_in_tool": lambda: reply("Let me.", tool("refund"), stop_reason="max_tokens", name="max_tokens_in_tool"),
    "unknown_stop": lambda: reply("Hm.", stop_reason="moon_phase", name="unknown_stop"),
    "unknown_block": unknown_block,
    "duplicate_tool_ids": duplicate_tool_ids,
    "pause_turn": pause_turn,
    "too_long": lambda: error(
        400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum", name="too_long"
    ),
    "too_large": lambda: error(413, "request_too_large", "Request exceeds the maximum size", name="too_large"),
    "bad_request": lambda: error(400, "invalid_request_error", "max_tokens: too large", name="bad_request"),
    "unauthorized": lambda: error(401, "authentication_error", "invalid x-api-key", name="unauthorized"),
    "not_found": lambda: error(404, "not_found_error", "model: nobody", name="not_found"),
}


def named(words: str) -> Step:
    """The step that a command line names: `overloaded`, `rate_limited:300`, `text:Good morning`."""
    name, _, argument = words.partition(":")
    if name == "text":
        return reply(argument) if argument else reply(text())
    if name not in FAULTS:
        raise ValueError(f"No fault {name!r}. There are text, {', '.join(FAULTS)}.")
    try:
        return FAULTS[name](*([argument] if argument else []))
    except TypeError as wrong:
        raise ValueError(f"{name} takes no argument.") from wrong
