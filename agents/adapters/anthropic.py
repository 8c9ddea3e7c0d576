"""The Messages API, through Anthropic's SDK: streaming, tools, prompt caching, every fault by name."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Callable, Generator, Sequence
from functools import cached_property
from typing import Any

from django.core import checks

from agents.adapters.anthropic_faults import from_opening
from agents.adapters.anthropic_stream import Draft, events
from agents.adapters.base import ModelAdapter, ModelError, Reply, ToolSpec, Usage
from agents.adapters.blocks import compose, ids_in, joined, settle
from inbox.text import clean

DEFAULT_URL = "https://api.anthropic.com"
MAX_PAUSES = 5  # of one reply; the API pauses after about ten steps of a tool that it runs itself
CACHE_MARKS = {"5m": {"type": "ephemeral"}, "1h": {"type": "ephemeral", "ttl": "1h"}, None: None}
STOPS = ("end_turn", "tool_use", "stop_sequence", "max_tokens")


class AnthropicModel(ModelAdapter):
    """Claude, or whatever speaks the Messages API at `base_url`.

    The SDK is imported at the first call (it takes a second or two) and never retries: a retry would hold the worker,
    and it obeys a Retry-After of any length. Trying again is the turn's business.
    """

    option_names = frozenset(
        {
            "model",
            "api_key",
            "base_url",
            "connect_timeout",
            "read_timeout",
            "total_timeout",
            "cache",
            "params",
            "headers",
        }
    )

    @cached_property
    def client(self) -> Any:
        from anthropic import Anthropic, Timeout

        key = self.options.get("api_key") or os.environ.get("ANTHROPIC_API_KEY") or ""
        client = Anthropic(
            api_key=key.strip() or None,
            base_url=self.base_url,
            max_retries=0,
            timeout=Timeout(self.options.get("read_timeout", 120.0), connect=self.options.get("connect_timeout", 5.0)),
        )
        if client.api_key is None and client.auth_token is None and client.credentials is None:
            raise ModelError("auth", "There is none: set ANTHROPIC_API_KEY, or OPTIONS['api_key'] in AGENT_MODELS.")
        return client

    @property
    def base_url(self) -> str:
        return self.options.get("base_url") or os.environ.get("ANTHROPIC_BASE_URL") or DEFAULT_URL

    @property
    def model(self) -> str:
        return self.options.get("model") or os.environ.get("GLOVE_MODEL") or ""

    def reply(
        self,
        *,
        system: str,
        messages: list[dict[str, Any]],
        tools: Sequence[ToolSpec],
        max_tokens: int,
        on_delta: Callable[[str], None] | None = None,
    ) -> Reply:
        taken = ids_in(messages)
        blocks: list[dict[str, Any]] = []
        usage = Usage()
        for _ in range(1 + MAX_PAUSES):
            so_far, _calls = settle(blocks, "pause_turn", taken)
            prompt = [*messages, {"role": "assistant", "content": _begun(so_far)}] if so_far else messages
            part = Draft()
            try:
                self._fill(part, self._request(system, prompt, tools, max_tokens), on_delta)
                blocks += part.blocks()
                stop = _checked_stop(part)
            except ModelError as error:
                error.usage = usage + part.usage
                raise
            usage += part.usage
            if stop != "pause_turn":
                return compose(blocks, stop_reason=stop, usage=usage, model=part.model, taken=taken)
        raise ModelError("unknown_stop", f"It paused {MAX_PAUSES + 1} times in one reply.", usage=usage)

    def _fill(self, draft: Draft, request: dict[str, Any], on_delta: Callable[[str], None] | None) -> None:
        """One request and its whole answer."""
        held = ""  # half of a surrogate pair, until its other half has come
        with contextlib.closing(self._events(request)) as stream:
            for event in stream:
                if (text := held + draft.take(event)) and on_delta:
                    held = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
                    if shown := clean(joined(text[: len(text) - len(held)])):
                        on_delta(shown)

    def _events(self, request: dict[str, Any]) -> Generator[dict[str, Any]]:
        with contextlib.ExitStack() as stack:
            try:
                create = self.client.messages.with_streaming_response.create
                response = stack.enter_context(create(**request, stream=True))
            except ModelError:
                raise
            except Exception as error:
                raise from_opening(error) from error
            yield from events(response.http_response, self.options.get("total_timeout", 1200.0))

    def _request(
        self, system: str, messages: list[dict[str, Any]], tools: Sequence[ToolSpec], max_tokens: int
    ) -> dict[str, Any]:
        mark = CACHE_MARKS[self.options.get("cache", "5m") or None]
        request: dict[str, Any] = {
            "model": self.model,
            "max_tokens": max_tokens,
            "messages": _marked_messages(messages, mark),
            "extra_body": self.options.get("params"),
            "extra_headers": self.options.get("headers"),
        }
        if system:
            request["system"] = _marked([{"type": "text", "text": system}], mark)
        if tools:
            request["tools"] = _marked([_tool(spec) for spec in tools], mark)
        return request

    def check(self) -> list[checks.CheckMessage]:
        found = super().check()
        if importlib.util.find_spec("anthropic") is None:
            found.append(self.error("needs the package anthropic", "pip install -r requirements.txt", "agents.E202"))
        if not self.base_url.startswith(("http://", "https://")):
            found.append(self.error(f"has the base_url {self.base_url!r}", "It begins with https://.", "agents.E203"))
        if not self.model:
            found.append(self.error("names no model", "Set OPTIONS['model'] or GLOVE_MODEL.", "agents.E204"))
        if self.options.get("cache", "5m") not in (*CACHE_MARKS, False):
            found.append(self.error("has an unknown cache time", "It is '5m', '1h' or None.", "agents.E205"))
        if not (
            self.options.get("api_key") or os.environ.get("ANTHROPIC_API_KEY") or os.environ.get("ANTHROPIC_AUTH_TOKEN")
        ):
            hint = "Set ANTHROPIC_API_KEY, or give the agent another model."
            found.append(checks.Warning(f"AGENT_MODELS[{self.alias!r}] has no key.", hint=hint, id="agents.W206"))
        return found


def _checked_stop(part: Draft) -> str:
    """The stop reason of a reply that can be used."""
    stop = part.stop_reason
    if stop == "refusal":
        details = part.stop_details if isinstance(part.stop_details, dict) else {}
        said = details.get("explanation") or details.get("category") or ""
        raise ModelError("refusal", clean(str(said), limit=500))
    if stop == "model_context_window_exceeded":
        raise ModelError("too_long", "Its reply filled the context window.")
    if stop == "pause_turn" and any(block.get("type") == "tool_use" for block in part.blocks()):
        return "tool_use"  # it cannot go on before these are answered
    if stop not in STOPS and stop != "pause_turn":
        raise ModelError("unknown_stop", f"The reason was {clean(str(stop), limit=200)!r}.")
    return str(stop)


def _begun(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A reply to go on with. The API takes none whose last text ends with white space."""
    *head, last = blocks
    return [*head, {**last, "text": last["text"].rstrip()}] if last.get("type") == "text" else blocks


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "input_schema": spec.input_schema}


def _marked(parts: list[dict[str, Any]], mark: dict[str, str] | None) -> list[dict[str, Any]]:
    """The same list with a cache mark on its last part; the parts themselves are not changed."""
    return [*parts[:-1], {**parts[-1], "cache_control": mark}] if mark and parts else parts


def _marked_messages(messages: list[dict[str, Any]], mark: dict[str, str] | None) -> list[dict[str, Any]]:
    """Cache marks at the end of the last two messages of the user.

    The last one may end with a reminder that the next prompt does not have, and what is written behind it is never read
    again; the mark before it is where the next call finds this one. Blocks of the model are left as they are.
    """
    found = list(messages)
    places = [place for place, message in enumerate(found) if message["role"] == "user"]
    for place in places[-2:]:
        content = found[place]["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        found[place] = {**found[place], "content": _marked(content, mark)}
    return found
