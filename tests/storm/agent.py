"""The storm's agent and its tools, which write down that they ran, one line each in the file STORM_JOURNAL."""

import os
import random
import time

from agents import Agent, ToolContext, tool


def note(kind: str, key: str) -> None:
    if path := os.environ.get("STORM_JOURNAL"):
        line = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(line, f"{kind} {key}\n".encode())
        os.close(line)


def pause(least: float, most: float) -> None:
    """Take some time, in seconds, as real work does. Tests in which nothing else happens meanwhile leave it out."""
    time.sleep(random.uniform(least, most))


@tool
def work(ctx: ToolContext, what: str) -> str:
    """Do something that must not happen twice."""
    note("work", ctx.idempotency_key)
    pause(0, 0.15)
    return f"Worked on {what}."


@tool(idempotent=True)
def work_again(ctx: ToolContext, what: str) -> str:
    """Do something that may happen twice."""
    note("again", ctx.idempotency_key)
    pause(0, 0.15)
    return f"Worked on {what}."


@tool
def work_long(ctx: ToolContext, what: str) -> str:
    """Do something that takes two seconds."""
    note("long", ctx.idempotency_key)
    pause(2, 2)
    return f"Worked long on {what}."


def declare() -> Agent:
    """Declare the agent `storm`; for a process of its own, or inside `registry.isolated()`."""
    return Agent(
        "storm",
        instructions="Weather it.",
        tools=[work, work_again, work_long],
        limits={"backoff_s": 0.1, "backoff_max_s": 1, "attempts": 100},
    )
