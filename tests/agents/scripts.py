"""Scripted models: a list of replies, the prompts that they were given, and what tests say with them."""

import copy
import threading
from collections.abc import Callable
from typing import Any


class Script:
    """Gives its replies one after another, then `rest`, and keeps every prompt.

    A reply is what a script of agents.adapters.scripted may return, an exception to raise, or a function of the prompt.
    """

    def __init__(self, *replies: Any, rest: Any = "Done.") -> None:
        self.replies = list(replies)
        self.rest = rest
        self.prompts: list[list[dict[str, Any]]] = []
        self.tools: list[str] = []
        self._lock = threading.Lock()

    def __call__(self, messages: list[dict[str, Any]], tools: Any) -> Any:
        with self._lock:
            self.prompts.append(copy.deepcopy(messages))
            self.tools = [tool.name for tool in tools]
            reply = self.replies.pop(0) if self.replies else self.rest
        if callable(reply) and not isinstance(reply, type):
            reply = reply(messages)
        if isinstance(reply, BaseException):
            raise reply
        return reply

    @property
    def said_last(self) -> str:
        """All that the user's side of the last prompt says, results included."""
        return texts(self.prompts[-1])


def use(name: str, call_id: str = "", /, **given: Any) -> dict[str, Any]:
    """A tool use."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def post(tag: str = "restock:beans", request: str = "Are the beans in?", **given: Any) -> dict[str, Any]:
    """A use of the built-in tool that posts."""
    return use("glove_post_to_inbox", tag=tag, request=request, **given)


def texts(messages: list[dict[str, Any]], role: str = "user") -> str:
    """The texts and results of one role, one after another."""
    found = []
    for message in messages:
        if message["role"] == role:
            found += [block.get("text") or block.get("content") or "" for block in message["content"]]
    return "\n".join(found)


def results(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tool results of a prompt, in order."""
    return [block for message in messages for block in message["content"] if block["type"] == "tool_result"]


def at(reply: Any, act: Callable[[], Any]) -> Callable[[Any], Any]:
    """A reply that comes when this was done: what happens while the model thinks."""

    def think(messages: Any) -> Any:
        act()
        return reply

    return think
