"""The crash tests' agent, its three tools and its resolver. Each effect is written down outside the turn, to be counted."""

import os
import time

from agents import Agent, ToolContext, tool
from bench.crash import points
from inbox import resolver

EFFECTS = os.environ.get("CRASH_EFFECTS", "")


def _write(ctx: ToolContext, name: str, token: str) -> None:
    """One line, appended in one write: a killed process leaves it whole or not at all."""
    line = f"{name} {ctx.idempotency_key} {token}\n".encode()
    file = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line)
    finally:
        os.close(file)


@tool
def plain(ctx: ToolContext, token: str) -> str:
    """Do something that must not happen twice."""
    _write(ctx, "plain", token)
    points.at("in a tool", "plain")
    time.sleep(0.02)
    return f"plain {token} done"


@tool(idempotent=True)
def idem(ctx: ToolContext, token: str) -> str:
    """Do something that its key keeps from happening twice."""
    _write(ctx, "idem", token)
    points.at("in a tool", "idem")
    time.sleep(0.02)
    return f"idem {token} done"


@tool(atomic=True)
def atom(ctx: ToolContext, token: str) -> str:
    """Write a row."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {points.TABLE} (call, token) VALUES (%s, %s)", [ctx.idempotency_key, token])
    points.at("in a tool", "atom")
    return f"atom {token} done"


@resolver("cron:*", every=1)
def asked_by_cron(item) -> str:
    """Every request gets an answer at the next run."""
    return f"Cron says <<c{item.mailbox_id}-{item.pk}>>"


Agent(
    "crash",
    instructions="Do what is wished.",
    tools=[plain, idem, atom],
    limits={"compact_at_tokens": 900, "compactions": 10, "backoff_s": 0.3, "model_calls": 100},
)
if points.FOLDER:
    points.install()
