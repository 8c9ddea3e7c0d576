"""What a model is to the loop: one call that takes a prompt and gives one whole reply, or says why not.

An adapter never gives part of a reply: what it returns was received to its end, and everything else is a ModelError.
`AGENT_MODELS` names the adapters, as CACHES names caches; docs/reference/models.md lists their options.
"""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string


@dataclass(frozen=True)
class ToolSpec:
    """A tool as the model sees it. `input_schema` is a JSON Schema of an object."""

    name: str
    description: str
    input_schema: dict[str, Any]


@dataclass(frozen=True)
class Usage:
    """Tokens of one call, as the provider counts them. The three kinds of input do not overlap."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )


@dataclass(frozen=True)
class ToolUse:
    """One call that the model asks for.

    `problem` is empty for a call that may run. "truncated" (max_tokens cut it off) and "invalid" (its input is no JSON
    object, or holds what cannot be carried: NaN, 1e400, a key twice, NUL, a lone surrogate) must never run; `input` is
    None then.
    """

    id: str
    name: str
    input: dict[str, Any] | None
    problem: str = ""


@dataclass(frozen=True)
class Reply:
    """One whole reply.

    `blocks` is the JSON text of the provider's content blocks, thinking and signatures included. It is what the next
    prompts carry: json.loads, and the adapter's own encoding of the result, give the same text again.
    `text` is what a person reads. `stop_reason` is end_turn, tool_use, stop_sequence or max_tokens.
    """

    blocks: str
    text: str
    tool_uses: tuple[ToolUse, ...]
    stop_reason: str
    usage: Usage
    model: str


# reason -> whether trying again is useless, and the sentence that people read.
REASONS: dict[str, tuple[bool, str]] = {
    "overloaded": (False, "The model's provider is overloaded."),
    "rate_limited": (False, "The model's provider limits the rate of calls."),
    "timeout": (False, "The model's provider did not answer in time."),
    "cut_stream": (False, "The model's reply broke off before its end."),
    "connection": (False, "The model's provider could not be reached."),
    "provider_error": (False, "The model's provider failed."),
    "refusal": (True, "The model refused to answer."),
    "empty": (True, "The model's reply was empty."),
    "unknown_stop": (True, "The model stopped for a reason that is not known here."),
    "too_long": (True, "The prompt is too long for the model."),
    "auth": (True, "The model's provider did not accept the key."),
    "bad_request": (True, "The model's provider did not accept the request."),
    "not_found": (True, "The model's provider does not know this model or address."),
}


class ModelError(Exception):
    """The model gave no reply that can be used, and nothing of it may be stored.

    `reason` is one of REASONS. `permanent` says that the same call would fail again. `retry_after` is how many seconds
    the provider asked to wait, at most a day, or None. `usage` is what the call cost all the same, as far as known.
    """

    def __init__(
        self,
        reason: str,
        detail: str = "",
        *,
        permanent: bool | None = None,
        retry_after: float | None = None,
        usage: Usage | None = None,
    ) -> None:
        always, sentence = REASONS[reason]
        super().__init__(f"{sentence} {detail}".strip())
        self.reason = reason
        self.permanent = always if permanent is None else permanent
        self.retry_after = retry_after
        self.usage = usage or Usage()


class ModelAdapter(abc.ABC):
    """A way to reach a model. One instance serves all threads of a process, so it keeps no state of a call."""

    option_names: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, alias: str, options: dict[str, Any]) -> None:
        self.alias = alias
        self.options = options

    @abc.abstractmethod
    def reply(
        self,
        *,
        system: str,
        messages: list[dict[str, Any]],
        tools: Sequence[ToolSpec],
        max_tokens: int,
        on_delta: Callable[[str], None] | None = None,
    ) -> Reply:
        """Call the model once and return its whole reply, or raise ModelError.

        `messages` have the form of the Messages API and are not changed. `on_delta` gets pieces of the text while they
        arrive, which may turn out to belong to a reply that fails; an exception that it raises ends the call and
        reaches the caller as it is.
        """

    def check(self) -> list[CheckMessage]:
        """What is wrong with the options, in the form of Django's system checks."""
        if unknown := sorted(set(self.options) - self.option_names):
            known = ", ".join(sorted(self.option_names))
            return [self.error(f"does not know the option {', '.join(unknown)}", f"It knows {known}.", "agents.E201")]
        return []

    def error(self, what: str, hint: str, code: str) -> CheckMessage:
        return Error(f"AGENT_MODELS[{self.alias!r}] {what}.", hint=hint, id=code)


_models: dict[str, ModelAdapter] = {}
_models_lock = threading.Lock()


def get_model(alias: str = "default") -> ModelAdapter:
    """The model of that alias; the same instance for the whole process. Raises ImproperlyConfigured."""
    with _models_lock:
        if alias not in _models:
            _models[alias] = _build(alias)
        return _models[alias]


def _build(alias: str) -> ModelAdapter:
    known: dict[str, dict[str, Any]] = settings.AGENT_MODELS
    if alias not in known:
        raise ImproperlyConfigured(f"No model {alias!r} in AGENT_MODELS. It has {', '.join(sorted(known)) or 'none'}.")
    backend = known[alias].get("BACKEND", "")
    try:
        adapter = import_string(backend)
    except ImportError as error:
        raise ImproperlyConfigured(
            f"AGENT_MODELS[{alias!r}]: BACKEND {backend!r} cannot be imported: {error}"
        ) from error
    if not (isinstance(adapter, type) and issubclass(adapter, ModelAdapter)):
        raise ImproperlyConfigured(f"AGENT_MODELS[{alias!r}]: BACKEND {backend!r} is not a ModelAdapter.")
    return adapter(alias, dict(known[alias].get("OPTIONS", {})))


def check_models(aliases: Iterable[str]) -> list[CheckMessage]:
    """The system check of these aliases: those that agents use, since the others may well lack a key."""
    found: list[CheckMessage] = []
    for alias in sorted(set(aliases)):
        try:
            found += get_model(alias).check()
        except ImproperlyConfigured as error:
            found.append(Error(str(error), hint="Mend AGENT_MODELS in the settings.", id="agents.E200"))
    return found


def _forget_models(*, setting: str, **kwargs: Any) -> None:
    if setting == "AGENT_MODELS":
        with _models_lock:
            _models.clear()


setting_changed.connect(_forget_models, dispatch_uid="agents.adapters.forget_models")
