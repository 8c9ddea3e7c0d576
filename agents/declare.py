"""Declaring agents and tools, in a `glove.py` of one's own app."""

import inspect
import json
import re
import sys
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pydantic
from pydantic_core import to_json

from agents import registry
from agents.adapters.base import ToolSpec
from agents.errors import BadDeclaration, LeaveTurn, ToolGaveUp
from agents.limits import check_limits

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass
class ToolContext:
    """What a tool may know of the call that it serves.

    `idempotency_key` is the same whenever this call runs again: hand it to services that take one.
    `post(tag, request, blocking=False, due_in_s=None)` posts to the agent's inbox and returns the item's id.
    """

    idempotency_key: str
    mailbox: str
    conversation: str
    store: Any = field(repr=False)

    def post(self, tag: str, request: str, *, blocking: bool = False, due_in_s: float | None = None) -> str:
        """Post a request to the mailbox; the answer comes as mail. Raises the errors of inbox.services.items.post."""
        return str(self.store.add_inbox_item(tag=tag, request=request, blocking=blocking, due_in_s=due_in_s).id)


@dataclass(frozen=True)
class Tool:
    """A function that the model may call."""

    name: str
    description: str
    run: Callable[..., Any]
    arguments: type[pydantic.BaseModel]
    takes_context: bool = False
    permission: bool | Callable[..., bool] = False
    idempotent: bool = False
    atomic: bool = False
    retries: int = 0
    timeout: float | None = None  # seconds

    @cached_property
    def spec(self) -> ToolSpec:
        """The tool as the model sees it."""
        schema = self.arguments.model_json_schema()
        schema.pop("title", None)
        return ToolSpec(self.name, self.description, schema)

    def parse(self, given: dict[str, Any]) -> pydantic.BaseModel:
        """The arguments, checked. Raises pydantic.ValidationError."""
        return self.arguments.model_validate(given)

    def needs_permission(self, arguments: pydantic.BaseModel) -> bool:
        """Whether these arguments are gated."""
        if callable(self.permission):
            return bool(self.permission(**_as_keywords(arguments)))
        return self.permission

    def __call__(self, context: ToolContext, arguments: pydantic.BaseModel) -> str:
        """Run it; the result as text."""
        first = (context,) if self.takes_context else ()
        try:
            result = self.run(*first, **_as_keywords(arguments))
        except (LeaveTurn, SystemExit) as error:  # the end of an agent or a program that it ran, not of this turn
            raise ToolGaveUp(f"{type(error).__name__}: {error}") from error
        if isinstance(result, str):
            return result
        return "" if result is None else to_json(result, fallback=str).decode()


def canonical(arguments: pydantic.BaseModel) -> str:
    """The arguments in the one form in which they are compared: defaults filled in, keys sorted."""
    return json.dumps(
        arguments.model_dump(mode="json", by_alias=True), sort_keys=True, separators=(",", ":"), allow_nan=False
    )


def faults(error: pydantic.ValidationError) -> str:
    """What does not fit, argument by argument, for a model and for a person."""
    found = (f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}" for fault in error.errors())
    return "; ".join(found)


def tool(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Declare a tool: `@tool` or `@tool(permission=True)`.

    Its schema comes from the type hints, its description from the docstring, of which lines under `Args:` describe parameters.
    A first parameter named `ctx` or annotated ToolContext is given the ToolContext.
    `permission`   true, or a function of the arguments: runs only where a person has granted it
    `idempotent`   may run again after a crash, with the same `ctx.idempotency_key`
    `atomic`       database work only, at most 5 s: its effect and its journal row are one transaction
    `retries`      how often an exception is tried again at once; for idempotent tools
    `timeout`      seconds, after which its outcome is unknown
    `name`         if not the function's
    """
    if function is None:
        return lambda function: tool(function, **options)
    return _make_tool(function, **options)


def _make_tool(
    function: Callable[..., Any],
    *,
    name: str = "",
    permission: bool | Callable[..., bool] = False,
    idempotent: bool = False,
    atomic: bool = False,
    retries: int = 0,
    timeout: float | None = None,
) -> Tool:
    name = name or function.__name__
    if not NAME.fullmatch(name):
        raise BadDeclaration(f"{name!r} is not a tool's name: 1 to 64 of the characters A-Z a-z 0-9 _ -.")
    if retries and not idempotent:
        raise BadDeclaration(f"The tool {name} has retries but is not idempotent: a second run could do it twice.")
    if atomic and timeout:
        raise BadDeclaration(f"The tool {name} is atomic, which has a bound of 5 s of its own; leave the timeout out.")
    if timeout is not None and timeout <= 0:
        raise BadDeclaration(f"The tool {name} has a timeout of {timeout} s; it is more than 0, or left out.")
    if inspect.iscoroutinefunction(function):
        raise BadDeclaration(f"The tool {name} is an async function; turns run in threads, so write it without async.")
    description, notes = _split_docstring(inspect.getdoc(function) or "")
    if not description:
        raise BadDeclaration(f"The tool {name} has no docstring. The model chooses tools by it; write one.")
    hints = typing.get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    takes_context = False
    for index, (key, parameter) in enumerate(inspect.signature(function).parameters.items()):
        if index == 0 and (key == "ctx" or hints.get(key) is ToolContext):
            takes_context = True
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise BadDeclaration(f"The tool {name} takes {parameter}; every argument of a tool has a name.")
        if key not in hints:
            raise BadDeclaration(f"The argument {key} of the tool {name} has no type hint.")
        default = ... if parameter.default is parameter.empty else parameter.default
        # Under an alias: an argument may have any name, also one that pydantic's own class uses.
        field = pydantic.Field(default, alias=key)
        if key in notes:  # else a description in the hint stays
            field = pydantic.Field(default, alias=key, description=notes[key])
        fields[f"given_{key}"] = (hints[key], field)
    # allow_inf_nan: JSON has no such numbers.
    config = pydantic.ConfigDict(extra="forbid", allow_inf_nan=False)
    arguments = pydantic.create_model(name, __config__=config, **fields)
    return Tool(name, description, function, arguments, takes_context, permission, idempotent, atomic, retries, timeout)


class Agent:
    """A declared agent. `instructions` is its system prompt, or the name of a .md or .txt file beside the declaring module."""

    def __init__(
        self,
        name: str,
        *,
        instructions: str,
        model: str = "default",
        tools: Sequence[Tool] = (),
        capabilities: Sequence[str] = (),
        description: str = "",
        mesh: bool = False,
        limits: dict[str, Any] | None = None,
    ) -> None:
        if not NAME.fullmatch(name):
            raise BadDeclaration(f"{name!r} is not an agent's name: 1 to 64 of the characters A-Z a-z 0-9 _ -.")
        self.name = name
        self.instructions = _read_instructions(instructions, sys._getframe(1))
        self.model = model
        self.tools = tuple(tools)
        self.capabilities = tuple(capabilities)
        self.description = description
        self.mesh = mesh
        self.limits = check_limits(dict(limits or {}))
        names = [tool.name for tool in self.tools]
        if twice := {name for name in names if names.count(name) > 1}:
            raise BadDeclaration(f"The agent {name} has two tools named {', '.join(sorted(twice))}.")
        if reserved := [name for name in names if name.startswith("glove_")]:
            raise BadDeclaration(f"Tool names beginning with glove_ are built in: rename {', '.join(reserved)}.")
        registry.register(self)

    def __repr__(self) -> str:
        return f"<Agent {self.name}>"

    def run(self, store: Any, text: str) -> str:
        """Say this to the agent on that store, in this process, and return the reply's text.

        Raises TurnFailed where the turn fails, and agents.adapters.base.ModelError where the model does.
        """
        return store.run(self, text)


def _as_keywords(arguments: pydantic.BaseModel) -> dict[str, Any]:
    return {
        field.alias: getattr(arguments, name) for name, field in type(arguments).model_fields.items() if field.alias
    }


def _split_docstring(doc: str) -> tuple[str, dict[str, str]]:
    """The description, and what the lines under `Args:` say of each parameter."""
    description, _, rest = doc.partition("\nArgs:\n")
    notes: dict[str, str] = {}
    name = ""
    for line in rest.splitlines():
        if line.strip() and not line.startswith((" ", "\t")):
            break
        if found := re.match(r"\s{1,4}(\w+)(?: \([^)]*\))?: (.*)", line):
            name = found[1]
            notes[name] = found[2].strip()
        elif name and line.strip():
            notes[name] += " " + line.strip()
    return description.strip(), notes


def _read_instructions(instructions: str, caller: types.FrameType) -> str:
    if not re.fullmatch(r"[\w./-]+\.(md|txt)", instructions):
        return instructions.strip()
    path = Path(caller.f_globals.get("__file__", ".")).parent / instructions
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise BadDeclaration(f"The instructions {path} cannot be read: {error.strerror}.") from None
