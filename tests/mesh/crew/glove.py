"""The crew's agents and addresses."""

import os
import time

from agents import Agent, tool
from mesh import peer
from tests.mesh.crew.script import PARTS


@tool(idempotent=True)
def write(part: int) -> str:
    """Write a part of the document; it takes a moment."""
    with open(os.environ["CREW_JOURNAL"], "a") as journal:
        journal.write(f"part {part}\n")
    time.sleep(1.5)
    return f"Part {part} is written."


for role, tools in (("planner", []), ("writer", [write]), ("reviewer", [])):
    Agent(role, instructions=f"You are the {role}.", model=role, tools=tools, mesh=True, capabilities=[role])

peer("planner", agent="planner", public=True)
peer("reviewer", agent="reviewer", public=True)
for n in PARTS:
    peer(f"writer/{n}", agent="writer", public=True)
