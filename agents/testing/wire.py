"""The Messages API's form of a reply on the wire: as events, and as one message."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from typing import Any

Block = dict[str, Any]
Event = dict[str, Any]
MODEL = "fault-server"


def streamed(blocks: list[Block], stop_reason: str | None, piece: int) -> Iterable[Event]:
    """The events of a whole reply, in pieces of `piece` characters."""
    usage = {"input_tokens": 0, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    head = {"id": "msg_fault", "type": "message", "role": "assistant", "model": MODEL, "content": []}
    yield {"type": "message_start", "message": {**head, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    for index, block in enumerate(blocks):
        start, deltas = _block(block, piece)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    tokens = 1 + len(json.dumps(blocks)) // 4
    delta = {"stop_reason": stop_reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": tokens}}
    yield {"type": "message_stop"}


def _block(block: Block, piece: int) -> tuple[Block, list[dict[str, Any]]]:
    """The start of a block, and the deltas that fill it."""
    match block["type"]:
        case "text":
            return {**block, "text": ""}, [
                {"type": "text_delta", "text": part} for part in _pieces(block["text"], piece)
            ]
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": part} for part in _pieces(block["thinking"], piece)]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*deltas, signed]
        case "tool_use" | "server_tool_use":
            given = block["input"]
            raw = given if isinstance(given, str) else json.dumps(given) if given else ""
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in ["", *_pieces(raw, piece)]]
            return {**block, "input": {}}, deltas
    return block, []


def _pieces(whole: str, size: int) -> list[str]:
    return [whole[start : start + size] for start in range(0, len(whole), size)]


def with_id(event: Event, place: int) -> Event:
    """The event, with an id for a tool use that the script gave none."""
    if event["type"] != "content_block_start" or event["content_block"].get("id") != "":
        return event
    return {**event, "content_block": {**event["content_block"], "id": f"toolu_{place}_{event['index']}"}}


def counted(event: Event, size: int) -> Event:
    """The event with the tokens of a prompt of `size` bytes, at four bytes a token."""
    if event["type"] != "message_start":
        return event
    message = event["message"]
    return {**event, "message": {**message, "usage": {**message["usage"], "input_tokens": max(1, size // 4)}}}


def folded(events: Iterable[Event], size: int) -> dict[str, Any]:
    """The events of a reply as one message."""
    message: dict[str, Any] = {}
    raw: dict[int, str] = {}
    for event in (counted(event, size) for event in events):
        match event["type"]:
            case "message_start":
                message = {**event["message"], "content": []}
            case "content_block_start":
                message["content"].append(dict(event["content_block"]))
            case "content_block_delta":
                block, delta = message["content"][event["index"]], event["delta"]
                for key in ("text", "thinking", "signature"):
                    if key in delta:
                        block[key] += delta[key]
                if "partial_json" in delta:
                    raw[event["index"]] = raw.get(event["index"], "") + delta["partial_json"]
            case "content_block_stop" if raw.get(event["index"]):
                with contextlib.suppress(ValueError):  # a script may give input that is not JSON
                    message["content"][event["index"]]["input"] = json.loads(raw[event["index"]])
            case "message_delta":
                message |= event["delta"]
                message["usage"] = {**message["usage"], **event["usage"]}
    return message
