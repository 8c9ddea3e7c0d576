"""What the Messages API demands of a prompt, for the fault server to refuse what the real one would refuse."""

from __future__ import annotations

import re
from typing import Any

_ID = re.compile(r"[a-zA-Z0-9_-]+")


def breach(body: dict[str, Any]) -> str:
    """The first rule that this request breaks, in words, or nothing."""
    for name, kind in (("model", str), ("max_tokens", int), ("messages", list)):
        if not isinstance(body.get(name), kind) or not body[name]:
            return f"{name}: field required"
    messages = body["messages"]
    if messages[0].get("role") != "user":
        return "messages: first message must use the user role"
    seen: set[str] = set()
    open_ids: list[str] = []
    for place, message in enumerate(messages):
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message.get("role") not in ("user", "assistant") or not isinstance(blocks, list) or not blocks:
            return f"messages.{place}: a role and content are required"
        if found := _results(blocks, open_ids) or _text(blocks):
            return f"messages.{place}: {found}"
        open_ids = [str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
        for name in open_ids:
            if name in seen or not _ID.fullmatch(name):
                return f"messages.{place}: tool_use ids must be unique and of letters, digits, _ and -: {name}"
            seen.add(name)
    if messages[-1]["role"] == "assistant" and blocks[-1].get("type") == "text" and blocks[-1]["text"][-1:].isspace():
        return "messages: final assistant content cannot end with trailing whitespace"
    if open_ids:
        return "messages: tool_use without a tool_result in the next message"
    marks = str(body.get("system")).count("'cache_control'") + str(body.get("tools")).count("'cache_control'")
    marks += str(messages).count("'cache_control'")
    return "A maximum of 4 blocks with cache_control may be provided" if marks > 4 else ""


def _results(blocks: list[dict[str, Any]], open_ids: list[str]) -> str:
    """Each call is answered once, in the very next message, and results come first in it."""
    answered = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
    if missing := set(open_ids) - set(answered):
        return f"tool_use ids were found without tool_result blocks immediately after: {', '.join(sorted(missing))}"
    if len(answered) != len(open_ids):
        return "each tool_result must have a tool_use in the previous message, and only one"
    if any(block.get("type") == "tool_result" for block in blocks[len(answered) :]):
        return "tool_result blocks come first"
    return ""


def _text(blocks: list[dict[str, Any]]) -> str:
    blank = any(block.get("type") == "text" and not str(block.get("text", "")).strip() for block in blocks)
    return "text content blocks must contain non-whitespace text" if blank else ""
