"""The loop: run the open calls, receive, ask the model, commit; until there is nothing more to do.

It knows no database: a Run keeps the state, on the models (services/journal.py, calls.py) or on any other store (stores/run.py).
A turn leaves by an exception of agents.errors (LeaveTurn), or by `finish`.
"""

import json
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

import pydantic

from agents import stopping
from agents.adapters import get_model
from agents.adapters.base import ModelError, Reply, ToolUse
from agents.declare import Agent, Tool, ToolContext, canonical, faults
from agents.entries import Call, History
from agents.errors import HandBack, LeaveTurn, PutOff, TurnFailed
from agents.frames import GUIDE
from agents.invoke import Outcome, Timed, invoke
from agents.limits import Limits
from agents.prompt import InvalidPrompt, build, shortened, validate
from inbox.text import MAX_RESULT_BYTES, clean

log = logging.getLogger(__name__)

SUMMARISE = """\
[The system:] This conversation has grown long. Write a summary from which you can carry on without it: what the user wants,
what was done and found, decisions and exact figures, what you promised, and, word for word, whatever has been asked or
reported and not answered yet. Open inbox requests and tasks are added by the system. Reply with the summary only and call
no tool."""
SHOWN = (1_000_000, 8_000, 1_000)  # characters of each text and result of a history that is to be summarised
PROBLEMS = {
    "truncated": "Not run: your reply was cut off inside this call's arguments. Send the call again, shorter.",
    "invalid": "Not run: the arguments were not a valid JSON object. Send the call again.",
}


class Run(Protocol):
    """One turn's state. Every write checks that the turn is still this run's own, and raises Fenced where it is not."""

    agent: Agent
    limits: Limits
    tools: dict[str, Tool]
    model_calls: int
    compactions: int
    context_tokens: int

    def unfinished(self) -> list[Call]:
        """Calls of the last reply that have yet to run."""

    def has_news(self) -> bool:
        """Whether a receive would bring something."""

    def history(self) -> History:
        """What stands since the last summary."""

    def receive(self) -> History:
        """Give queued messages and mail their places, once; the history after that."""

    def commit(self, reply: Reply, calls: list[Call]) -> list[Call]:
        """Keep a reply that asks for calls; returns those that may run."""

    def finish(self, reply: Reply | None) -> None:
        """Keep the last reply, if any, and end the turn, in one transaction."""

    def summarise(self, reply: Reply) -> None:
        """Make this summary, with open requests and tasks, the new head of the history."""

    def begin(self, call: Call, gate: str | None) -> bool:
        """Journal that the call starts. `gate`: the canonical arguments where it needs a grant; false where it has none,
        and then the call is closed as denied."""

    def settle(self, call: Call, status: str, result: str) -> None:
        """Journal how a begun call ended."""

    def late(self, call: Call, status: str, result: str) -> None:
        """A result that came after the call was settled as unknown: it reaches the agent as mail."""

    def run_atomic(self, call: Call, gate: str | None, work: Any) -> None:
        """Begin, work and settle in one transaction."""

    def context(self, call: Call) -> ToolContext:
        """What the tool may know."""

    def check_budget(self) -> None:
        """Raise TurnFailed("over_budget") where tokens or money of the day are spent."""

    def note_model_call(self, purpose: str, seconds: float, outcome: Reply | ModelError) -> None:
        """Remember what a model call took, to be kept with the next write."""

    def pause_connection(self) -> None:
        """Give the database connection back while the model thinks."""


def run_turn(run: Run) -> None:
    """1. Run the calls that are open. 2. Compact when due. 3. Receive. 4. End where nothing is unanswered. 5. Ask the model.
    6. Commit the reply; end where it asks for no call, else again from 1."""
    calls = run.unfinished()
    working, room = bool(calls), run.limits.max_tokens
    while True:
        for call in calls:
            _boundary()
            _execute(run, call)
        _boundary()
        if run.context_tokens >= run.limits.compact_at_tokens and (working or run.has_news()):
            _compact(run)
        history = run.receive()
        if not history.unanswered:
            return run.finish(None)
        reply = _ask(run, history, room)
        if not reply.tool_uses:
            return run.finish(reply)
        room = _room_after(run, reply, room)
        calls = run.commit(reply, [_as_call(use) for use in reply.tool_uses])
        working = True


def _boundary() -> None:
    if stopping.flag.is_set():
        raise HandBack


def _ask(run: Run, history: History, room: int) -> Reply:
    """One model call, with no transaction open; once more after a compaction where the prompt was too long."""
    if run.model_calls >= run.limits.model_calls:
        raise TurnFailed("model_calls", f"The turn reached its limit of model calls: {run.limits.model_calls}.")
    try:
        return _call_model(run, build(history), room)
    except ModelError as error:
        if error.reason == "too_long" and len(history.entries) > 1:
            _compact(run)
            return _ask(run, run.history(), room)
        raise _leave(error) from error


def _compact(run: Run) -> None:
    history = run.history()
    if len(history.entries) < 2:
        return
    if run.compactions >= run.limits.compactions:
        raise TurnFailed("too_long", f"The history is too long even after {run.compactions} compactions in this turn.")
    messages = build(History(history.entries))
    if messages[-1]["role"] != "user":
        messages.append({"role": "user", "content": []})
    messages[-1]["content"].append({"type": "text", "text": SUMMARISE})
    reply = _summary(run, messages)
    if not reply.text.strip():
        raise TurnFailed("empty", "The model gave no summary.")
    run.summarise(reply)


def _summary(run: Run, messages: list[dict[str, Any]]) -> Reply:
    """Where the history is too long even for its summary, the model sees less of each long part: else nothing could ever be
    said in this conversation again."""
    for longest in SHOWN:
        try:
            return _call_model(run, shortened(messages, longest), run.limits.max_tokens, "summary")
        except ModelError as error:
            if error.reason != "too_long" or longest == SHOWN[-1]:
                raise _leave(error) from error
    raise AssertionError("unreachable: the last try returns or raises")


def _call_model(run: Run, messages: list[dict[str, Any]], room: int, purpose: str = "reply") -> Reply:
    try:
        validate(messages)
    except InvalidPrompt as error:
        raise TurnFailed("invalid_prompt", str(error)) from error
    run.check_budget()
    run.pause_connection()
    specs = [tool.spec for tool in run.tools.values()]
    system = f"{run.agent.instructions}\n\n{GUIDE}" if "glove_post_to_inbox" in run.tools else run.agent.instructions
    began = time.monotonic()
    try:
        reply = get_model(run.agent.model).reply(system=system, messages=messages, tools=specs, max_tokens=room)
    except ModelError as error:
        run.note_model_call(purpose, time.monotonic() - began, error)
        raise
    run.note_model_call(purpose, time.monotonic() - began, reply)
    return reply


def _leave(error: ModelError) -> LeaveTurn:
    if error.permanent:
        return TurnFailed(error.reason, str(error))
    return PutOff(error.reason, str(error), error.retry_after)


def _room_after(run: Run, reply: Reply, room: int) -> int:
    """A call that was cut off by max_tokens is tried once with twice the room; then the turn fails."""
    if not any(use.problem == "truncated" for use in reply.tool_uses):
        return run.limits.max_tokens
    if room > run.limits.max_tokens:
        raise TurnFailed("truncated", "The model's tool call was cut off by max_tokens twice.")
    return room * 2


def _as_call(use: ToolUse) -> Call:
    if use.problem:
        return Call(use.id, use.name, "{}", "aborted", PROBLEMS[use.problem])
    return Call(use.id, use.name, json.dumps(use.input, ensure_ascii=False))


def _execute(run: Run, call: Call) -> None:
    """Permission first, journal before and after."""
    tool = run.tools.get(call.name)
    if tool is None:
        return _refuse(run, call, f"There is no tool named {call.name!r}.")
    try:
        arguments = tool.parse(json.loads(call.input))
    except pydantic.ValidationError as error:
        return _refuse(run, call, f"Not run: the arguments do not fit. {faults(error)}")
    except Exception as error:  # a rule of the developer's own failed, here or below: not run
        log.exception("A validator of %s failed", tool.name)
        return _refuse(run, call, f"Not run: the arguments could not be checked ({type(error).__name__}).")
    try:
        gate = canonical(arguments) if tool.needs_permission(arguments) else None
    except Exception as error:
        log.exception("The permission rule of %s failed", tool.name)
        return _refuse(run, call, f"Not run: whether it needs permission could not be told ({type(error).__name__}).")
    context = run.context(call)
    if tool.atomic:
        run.run_atomic(call, gate, lambda: clean(tool(context, arguments), limit=MAX_RESULT_BYTES))
    elif call.status == "running" or run.begin(call, gate):  # running: an idempotent one, again after a crash
        _run_outside(run, call, tool, lambda: invoke(tool, context, arguments))


def _run_outside(run: Run, call: Call, tool: Tool, work: Callable[[], Outcome]) -> None:
    """With no transaction open."""
    if not tool.timeout:
        return run.settle(call, *work())
    timed = Timed(tool, work, lambda status, result: run.late(call, status, result))
    try:
        run.settle(call, *timed.wait())
    finally:
        timed.settled()


def _refuse(run: Run, call: Call, why: str) -> None:
    if call.status == "running" or run.begin(call, None):
        run.settle(call, "failed", clean(why, limit=MAX_RESULT_BYTES))
