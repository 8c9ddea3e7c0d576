"""A model that follows a script: for tests, for the demo, for a first run without a key."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from django.core.checks import CheckMessage
from django.utils.module_loading import import_string

from agents.adapters.base import ModelAdapter, Reply, ToolSpec, Usage
from agents.adapters.blocks import compose, ids_in

Script = Callable[[list[dict[str, Any]], Sequence[ToolSpec]], Any]
CHARS_PER_TOKEN = 4  # an estimate, so that limits and compaction work here too


class ScriptedModel(ModelAdapter):
    """Asks the `script` of its OPTIONS, a callable or its dotted path, for every reply: `(messages, tools) -> reply`.

    A reply is a text, a content block, a list of blocks, or a Reply that is passed on as it is. A script may raise
    ModelError. The same prompt gets the same tool ids where the script gives none. `delay`: seconds before the reply.
    """

    option_names = frozenset({"script", "delay"})

    @cached_property
    def script(self) -> Script:
        script = self.options.get("script", echo)
        return import_string(script) if isinstance(script, str) else script

    def reply(
        self,
        *,
        system: str,
        messages: list[dict[str, Any]],
        tools: Sequence[ToolSpec],
        max_tokens: int,
        on_delta: Callable[[str], None] | None = None,
    ) -> Reply:
        if delay := self.options.get("delay"):
            time.sleep(delay)
        said = self.script(messages, tools)
        if not isinstance(said, Reply):
            blocks = [_with_id(block, place, messages) for place, block in enumerate(_blocks(said))]
            stop = "tool_use" if any(block.get("type") == "tool_use" for block in blocks) else "end_turn"
            usage = Usage(_tokens([system, messages]), _tokens(blocks))
            said = compose(
                blocks, stop_reason=stop, usage=usage, model=f"scripted:{self.alias}", taken=ids_in(messages)
            )
        if on_delta:
            for piece in re.findall(r"\S*\s*", said.text):
                if piece:
                    on_delta(piece)
        return said

    def check(self) -> list[CheckMessage]:
        found = super().check()
        try:
            script: object = self.script
            if not callable(script):
                found.append(
                    self.error("has a script that is not callable", "(messages, tools) -> reply", "agents.E207")
                )
        except ImportError as error:
            found.append(self.error(f"has a script that cannot be imported: {error}", "Mend the path.", "agents.E207"))
        return found


def echo(messages: list[dict[str, Any]], tools: Sequence[ToolSpec]) -> str:
    """The script of a model that was given none."""
    return f"You said: {last_text(messages)}"


def last_text(messages: list[dict[str, Any]]) -> str:
    """The last text that the model was told; for scripts."""
    for message in reversed(messages):
        if message["role"] == "user":
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for block in reversed(blocks):
                if block.get("type") == "text":
                    return str(block["text"])
    return ""


def _blocks(said: Any) -> list[dict[str, Any]]:
    match said:
        case str():
            return [{"type": "text", "text": said}]
        case dict():
            return [said]
        case list() if all(isinstance(block, dict) for block in said):
            return said
    raise TypeError(
        f"A script returned {type(said).__name__}; it returns a text, a block, a list of blocks or a Reply."
    )


def _with_id(block: dict[str, Any], place: int, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The block with an id drawn from the prompt: a call that is made again after a crash has the same ones."""
    if block.get("type") != "tool_use" or block.get("id"):
        return block
    seed = json.dumps([messages, place], sort_keys=True, default=str)
    return {**block, "id": f"toolu_{hashlib.sha256(seed.encode()).hexdigest()[:24]}"}


def _tokens(value: Any) -> int:
    """About how many tokens the texts inside are."""
    chars, todo = 0, [value]
    while todo:
        part = todo.pop()
        if isinstance(part, str):
            chars += len(part)
        elif isinstance(part, dict):
            todo += part.values()
        elif isinstance(part, list):
            todo += part
    return -(-chars // CHARS_PER_TOKEN)
