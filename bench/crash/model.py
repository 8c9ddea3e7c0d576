"""The scripted model. It answers from the prompt alone, so that a call that is made again gives the same.

What it is told holds tokens, `<<w3-7>>`. It calls the tools that a token's message wishes, and then acknowledges every token
that it has not acknowledged, as `[w3-7]`. So a message or letter that was lost has no acknowledgement, one that was read twice or
answered twice has two.
"""

import random
import re
import time
from typing import Any, NamedTuple

from bench.crash.points import at

TOKEN = re.compile(r"<<([a-z]+[0-9]+-[0-9]+)>>([^<\n]*)")
CALLED = re.compile(r"called:(\S+)")
ACKNOWLEDGED = re.compile(r"\[([a-z]+[0-9]+-[0-9]+)\]")
WISHES = ("plain", "idem", "atom", "ask", "cron")
THINKS_S = (0.0, 0.05)


class Known(NamedTuple):
    """What the prompt says: wishes by token, in order; tokens whose tools were called; tokens that are acknowledged."""

    wishes: dict[str, list[str]]
    called: set[str]
    acknowledged: set[str]


def reply(messages: list[dict[str, Any]], tools: Any) -> Any:
    known = read(messages)
    summary = "Write a summary" in _texts(messages[-1])[-1]
    at("in compaction" if summary else "in a model call")
    time.sleep(random.uniform(*THINKS_S))
    open_ones = {token: wishes for token, wishes in known.wishes.items() if token not in known.acknowledged}
    if summary:
        return "So far.\n" + "\n".join(
            _kept(token, wishes, token in known.called) for token, wishes in open_ones.items()
        )
    calls = [_call(wish, token) for token, wishes in open_ones.items() if token not in known.called for wish in wishes]
    if calls:
        return [{"type": "text", "text": "At once."}, *calls]
    return "Heard. " + " ".join(f"[{token}]" for token in open_ones)


def read(messages: list[dict[str, Any]]) -> Known:
    known = Known({}, set(), set())
    for message in messages:
        if message["role"] == "user":
            for text in _texts(message):
                for token, rest in TOKEN.findall(text):
                    known.wishes.setdefault(token, [wish for wish in WISHES if f"wish:{wish}" in rest])
                known.called.update(CALLED.findall(text))
        else:
            for block in message["content"]:
                if block["type"] == "tool_use":
                    known.called.add(block["input"].get("token") or block["input"]["request"].rpartition(" ")[2])
                else:
                    known.acknowledged.update(ACKNOWLEDGED.findall(block.get("text", "")))
    return known


def _texts(message: dict[str, Any]) -> list[str]:
    return [block["text"] for block in message["content"] if block["type"] == "text"] or [""]


def _kept(token: str, wishes: list[str], called: bool) -> str:
    return f"<<{token}>> {' '.join(f'wish:{wish}' for wish in wishes)}" + (f"\ncalled:{token}" if called else "")


def _call(wish: str, token: str) -> dict[str, Any]:
    if wish in ("ask", "cron"):
        given = {"tag": f"{wish}:crash", "request": f"Please say something about {token}", "blocking": wish == "ask"}
        return {"type": "tool_use", "name": "glove_post_to_inbox", "input": given}
    return {"type": "tool_use", "name": wish, "input": {"token": token}}
