"""A worker that dies at a named point, by a real SIGKILL of a real process: `python -m tests.agents.crash_worker LOG`.

It reads "point argument" from its input and forks a child for each, which runs into its death. What it writes is how the
child ended: -9, or 0 where it lived to the end. Forking spares each death the start of Python and Django.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

LOG = "GLOVE_TEST_CRASH_LOG"
POINTS = (
    "after the claim",
    "before the receive",
    "in the receive",
    "after the receive",
    "in the model call",
    "before the reply's commit",
    "in the reply's commit",
    "after the reply's commit",
    "before the tool",
    "as the tool starts",
    "in the tool",
    "after the tool",
    "after the tool's result",
    "in the summary's call",
    "in the summary's commit",
    "after the summary's commit",
    "before the last commit",
    "in the last commit",
    "after the last commit",
)
_point = ""


def die(at: str) -> None:
    """Here the process ends, if it was told to."""
    if at == _point:
        os.kill(os.getpid(), signal.SIGKILL)


def note(word: str) -> None:
    """What outlives the process: one line in the log."""
    log = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, f"{word}\n".encode())
    os.close(log)


def noted() -> list[str]:
    """What was noted so far."""
    log = Path(os.environ[LOG])
    return log.read_text().split() if log.exists() else []


def declare(kind: str = "plain") -> Any:
    """The agent whose worker dies: three tools, of which the second is the one it dies at."""
    from agents import Agent, ToolContext, registry, tool

    @tool
    def one() -> str:
        """First."""
        note("one")
        return "Done: one."

    @tool(idempotent=kind == "idempotent", atomic=kind == "atomic")
    def two(ctx: ToolContext) -> str:
        """Second."""
        note(f"two:{ctx.idempotency_key}")
        if kind == "atomic":
            ctx.post("effect", "What it did.")
        die("in the tool")
        return "Done: two."

    @tool
    def three() -> str:
        """Third."""
        note("three")
        return "Done: three."

    registry.agents.pop("tester", None)
    return Agent("tester", instructions="x", tools=[one, two, three], limits={"compact_at_tokens": 100})


def script(messages: list[dict[str, Any]], tools: Any) -> Any:
    """Three calls, then a word. The history is long, so a summary comes between, unless a new worker does not know that yet."""
    from agents.loop import SUMMARISE

    said = str(messages)
    if SUMMARISE.split("\n")[0] in said:
        die("in the summary's call")
        return "SUMMARY"
    if "SUMMARY" in said or "tool_result" in said:
        return "Good."
    die("in the model call")
    return [{"type": "tool_use", "id": name, "name": name, "input": {}} for name in ("one", "two", "three")]


def lay_mines() -> None:
    """Put the points into the code."""
    from agents.services import calls, hot, journal

    around(hot, "claim", after="after the claim")
    around(hot, "receive", before="before the receive", after="after the receive")
    around(hot, "_insert_letters", after="in the receive")
    around(journal.TurnRun, "commit", before="before the reply's commit", after="after the reply's commit")
    around(journal.TurnRun, "summarise", after="after the summary's commit")
    around(journal.TurnRun, "finish", before="before the last commit", after="after the last commit")
    around(hot, "insert_message", after=_which_commit)
    around(calls.ClaimedTurn, "begin", before="before the tool", after="as the tool starts", only=_is_two)
    around(calls.ClaimedTurn, "run_atomic", before="before the tool", after="after the tool's result", only=_is_two)
    around(calls.ClaimedTurn, "settle", before="after the tool", after="after the tool's result", only=_is_two)


def around(
    owner: Any, name: str, *, before: str = "", after: Any = "", only: Callable[..., bool] = lambda *a: True
) -> None:
    """Die before or after this function, where the arguments are those that are meant."""
    was = getattr(owner, name)

    def mined(*args: Any, **given: Any) -> Any:
        if before and only(*args):
            die(before)
        result = was(*args, **given)
        if after and only(*args):
            die(after(*args, **given) if callable(after) else after)
        return result

    setattr(owner, name, mined)


def _is_two(run: Any, call: Any, *rest: Any) -> bool:
    return bool(call.name == "two")


def _which_commit(claim: Any, place: int, text: str, blocks: str = "", *, sender: str = "agent", **rest: Any) -> str:
    if sender == "user":
        return "in the summary's commit"
    return "in the reply's commit" if "tool_use" in blocks else "in the last commit"


def run_turn(turn: str) -> None:
    """Start a turn."""
    from agents.services import turns

    turns.start(int(turn))


def resolve(item: str) -> None:
    """Answer an item, and die where its reader would be woken."""
    from inbox.services import items
    from inbox.signals import mailbox_ready

    mailbox_ready.receivers.clear()
    mailbox_ready.connect(lambda **kwargs: die("before the wake"), weak=False)
    items.resolve(int(item), "Since noon.", by="bob", via="admin")


def child(point: str, kind: str, what: str, argument: str) -> None:
    global _point
    _point = point
    declare(kind)
    lay_mines()
    {"turn": run_turn, "resolve": resolve}[what](argument)


def main() -> None:
    import django
    from django.conf import settings

    django.setup()
    options = {"script": script}
    settings.AGENT_MODELS = {"default": {"BACKEND": "agents.adapters.scripted.ScriptedModel", "OPTIONS": options}}
    print("ready", flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            child(*line.rstrip("\n").split("|"))
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "glove_site.settings")
    main()
