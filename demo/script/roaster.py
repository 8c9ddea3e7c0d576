"""The script of the roaster: it answers letters that ask when coffee is roasted, and acknowledges others that wait."""

import re

from demo.script.hearing import SEND, Call, Letter
from demo.script.memory import Memory, Plan

_LETTER = re.compile(r"(?:Message|Broadcast) (\S+) from (\S+?)(?:,|\.(?: |$))")
_ROAST = re.compile(r"^([a-z0-9-]+): (.+), (\d+) bags$", re.MULTILINE)


def letter(letter: Letter, memory: Memory) -> Plan:
    """A letter of another agent."""
    found = _LETTER.match(letter.request)
    if found is None or not letter.tag.startswith(("mesh:from:", "mesh:broadcast:from:")):
        yield from ()
        return "Noted."
    message, who = found.groups()
    if not re.search(r"\broast", letter.response.lower()):
        if "The sender waits" in letter.request:
            yield Call(
                "glove_mesh_acknowledge", {"message_id": message, "note": "I can only say when coffee is roasted."}
            )
        return "Noted."
    answer = yield from schedule(letter.response, memory)
    sent = yield Call(SEND, {"to": who, "content": answer, "in_reply_to": message})
    return f"{who} has its answer." if sent.ok else sent.result


def schedule(text: str, memory: Memory) -> Plan:
    """When what the text names is roasted, or all that is on the plan."""
    done = yield Call("look_up_roasts", {})
    plan = _ROAST.findall(done.result)
    if not plan:
        return f"I cannot say: {done.result}"
    words = set(re.findall(r"[\w-]+", text.lower()))
    named = [roast for roast in plan if roast[0] in words]
    if not named and (of := re.search(r"\broast(?:ed)? of (?:the )?([\w -]+)", text, re.IGNORECASE)):
        return f"{of[1].strip()} is not on the plan. On it are: {', '.join(sorted({sku for sku, _, _ in plan}))}."
    return (
        "Next roasts: " + "; ".join(f"{sku.capitalize()} {day}, {bags} bags" for sku, day, bags in named or plan) + "."
    )
