"""One streamed answer of the Messages API, from its events to whole blocks.

The SDK's own accumulation is not used: it calls a message final whose stream ended early, and its parser completes a
tool input that was cut in the middle (`{"amount": 10` of 1000). Here a reply exists once `message_stop` has come and
every block was closed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, Protocol

from agents.adapters.anthropic_faults import fault, from_stream
from agents.adapters.base import ModelError, Usage
from agents.adapters.blocks import parse_input
from inbox.text import clean

MAX_BYTES = 64 * 1024 * 1024  # of one reply: far more than a model can say
MAX_TOKENS = 50_000_000  # that one answer may claim to have taken: far more than it can, and their sums fit a column
# delta type -> (its key, the key of the block it adds to); the rest is in `_Open.add`.
_PIECES = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("partial_json", "input"),
}


class _Bytes(Protocol):
    def iter_bytes(self) -> Iterator[bytes]: ...


class Bounded:
    """A response whose body may take `limit_s` seconds and MAX_BYTES in all; no read timeout ends a slow drip."""

    def __init__(self, response: _Bytes, limit_s: float) -> None:
        self.response = response
        self.limit_s = limit_s
        self.until = time.monotonic() + limit_s

    def iter_bytes(self) -> Iterator[bytes]:
        size = 0
        for chunk in self.response.iter_bytes():
            size += len(chunk)
            if time.monotonic() > self.until:
                raise ModelError("timeout", f"The whole reply took longer than {self.limit_s:g} s.")
            if size > MAX_BYTES:
                raise ModelError("provider_error", f"It sent more than {MAX_BYTES} bytes.")
            yield chunk


def events(response: Any, limit_s: float) -> Iterator[dict[str, Any]]:
    """The events of a stream, as they were sent. Whether they make a whole reply is for `Draft` to say."""
    from anthropic import Stream

    kind = response.headers.get("content-type", "nothing")
    if not kind.startswith("text/event-stream"):
        raise ModelError("provider_error", f"It answered with {kind} in place of a stream.")
    bounded: Any = Bounded(response, limit_s)
    try:
        for sent in Stream.raw_events(bounded):
            if not sent.data:
                continue
            event = json.loads(sent.data)
            if event["type"] == "error":
                raise fault(status=response.status_code, body=event, headers=response.headers)
            yield event
            if event["type"] == "message_stop":
                return
    except ModelError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError("provider_error", "It sent an event that is not of the Messages API.") from error
    except Exception as error:
        raise from_stream(error) from error


class _Open:
    """A block that is still growing."""

    def __init__(self, block: dict[str, Any]) -> None:
        self.block = dict(block)
        self.pieces: dict[str, list[str]] = {}
        self.closed = False
        self.known = True  # whether every delta could be added

    def add(self, delta: dict[str, Any]) -> None:
        kind = delta["type"]
        if kind in _PIECES:
            source, target = _PIECES[kind]
            first = self.block.get(target) if target != "input" else ""
            pieces = self.pieces.setdefault(target, [first or ""])
            pieces.append(delta[source])
            if not all(isinstance(piece, str) for piece in (pieces[0], pieces[-1])):
                raise TypeError("text is a string")
        elif kind == "signature_delta":
            self.block["signature"] = delta["signature"]
        elif kind == "citations_delta":
            self.block["citations"] = [*(self.block.get("citations") or []), delta["citation"]]
        else:
            self.known = False

    def whole(self) -> dict[str, Any]:
        for key, parts in self.pieces.items():
            if text := "".join(parts):
                self.block[key] = text
        return self.block


class Draft:
    """A reply that grows by events. `blocks()` has a meaning after the last of them."""

    def __init__(self) -> None:
        self.model = ""
        self.stop_reason: str | None = None
        self.stop_details: Any = None
        self.started = self.stopped = False
        self._usage: dict[str, Any] = {}
        self._open: list[_Open] = []

    def take(self, event: dict[str, Any]) -> str:
        """Add one event; the text that it brought, if any. An event of an unknown type is ignored, as the API asks."""
        try:
            return self._take(event)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            raise ModelError("provider_error", f"An event makes no sense here: {event.get('type')}.") from error

    def _take(self, event: dict[str, Any]) -> str:
        match event["type"]:
            case "message_start":
                self.started = True
                self.model = clean(str(event["message"].get("model", "")))[:200]
                self._usage.update(event["message"].get("usage") or {})
            case "content_block_start":
                if event["index"] != len(self._open) or not self.started:
                    raise ValueError("blocks come in order")
                self._open.append(_Open(event["content_block"]))
            case "content_block_delta":
                block = self._growing(event["index"])
                block.add(event["delta"])
                if event["delta"]["type"] == "text_delta" and block.block.get("type") == "text":
                    return str(event["delta"]["text"])
            case "content_block_stop":
                self._growing(event["index"]).closed = True
            case "message_delta":
                self.stop_reason = event["delta"].get("stop_reason")
                self.stop_details = event["delta"].get("stop_details")
                self._usage.update(
                    {key: value for key, value in (event.get("usage") or {}).items() if value is not None}
                )
            case "message_stop":
                self.stopped = (
                    self.started and self.stop_reason is not None and all(block.closed for block in self._open)
                )
        return ""

    def _growing(self, index: int) -> _Open:
        block = self._open[index]
        if index < 0 or block.closed:
            raise ValueError("a closed block does not grow")
        return block

    def blocks(self) -> list[dict[str, Any]]:
        """The blocks in order; a tool's input as its raw text. A block that grew in an unknown way is left out.

        Text is text all the same, and a tool use that cannot be read is kept with no input, to be refused by name.
        """
        if not self.stopped:
            raise ModelError("cut_stream", "The stream ended before the message did.")
        found = []
        for block in self._open:
            whole, kind = block.whole(), block.block.get("type")
            if kind == "tool_use" and not block.known:
                whole["input"] = None
            elif kind != "tool_use" and "input" in block.pieces:
                # A tool that the provider itself ran: its input is only sent back.
                whole["input"] = parse_input("".join(block.pieces["input"])) or {}
            if block.known or kind in ("text", "tool_use"):
                found.append(whole)
        return found

    @property
    def usage(self) -> Usage:
        names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        counts = [self._usage.get(name) for name in names]
        return Usage(*(min(count, MAX_TOKENS) if isinstance(count, int) and count > 0 else 0 for count in counts))
