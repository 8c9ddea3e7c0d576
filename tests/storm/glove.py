"""The storm's agent. Its tools write down that they ran, one line each in the file STORM_JOURNAL, so that runs can be counted."""

import os
import random
import time

from agents import Agent, ToolContext, tool


def note(kind: str, key: str) -> None:
    if path := os.environ.get("STORM_JOURNAL"):
        line = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(line, f"{kind} {key}\n".encode())
        os.close(line)


@tool
def work(ctx: ToolContext, what: str) -> str:
    """Do something that must not happen twice."""
    note("work", ctx.idempotency_key)
    time.sleep(random.uniform(0, 0.15))
    return f"Worked on {what}."


@tool(idempotent=True)
def work_again(ctx: ToolContext, what: str) -> str:
    """Do something that may happen twice."""
    note("again", ctx.idempotency_key)
    time.sleep(random.uniform(0, 0.15))
    return f"Worked on {what}."


storm = Agent(
    "storm",
    instructions="Weather it.",
    tools=[work, work_again],
    limits={"backoff_s": 0.1, "backoff_max_s": 1, "attempts": 100},
)
