"""The script of the roaster: it answers letters that ask when coffee is roasted, and acknowledges others that wait.

What is not on its plan it waits for, as any agent does: it posts a request, whose last line says whom it owes an answer, and ends
its turn. So nothing has to be remembered but the request."""

import re
from collections.abc import Generator

from demo.roasts import ANY
from demo.script.hearing import POST, SEND, Call, Done, Letter
from demo.script.memory import Memory, Plan
from demo.script.shelf import is_named
from inbox.text import first_line

MAX_TOLD = 20  # roasts in one answer
MAX_SHOWN = 4000  # characters of the plan, for who is asked
# Less than the day that who asked by letter waits: so it hears that nobody knew.
DUE_S = 20 * 3600
ABILITIES = "I can only say when coffee is roasted. Ask, for example: when is the next roast of Huila?"
_LETTER = re.compile(r"(?:Message|Broadcast) (\S+) from (\S+?)(?:,|\.(?: |$))")
_OWED = re.compile(r"Asked by (\S+) in message (\S+)\.")
_ROAST = re.compile(r"^([a-z0-9-]+): (\w+ \d+ \w+), (\d+ bags?) of (.+)$", re.MULTILINE)
_MISSING = re.compile(r"^([a-z0-9-]+): (.+), not on the plan$", re.MULTILINE)


def letter(letter: Letter, memory: Memory) -> Plan:
    """A letter of another agent, or the answer to a request of its own."""
    if letter.tag.startswith("roast:"):
        return (yield from planned(letter))
    found = _LETTER.match(letter.request)
    if found is None or not letter.tag.startswith(("mesh:from:", "mesh:broadcast:from:")):
        return "Noted."
    message, who = found.groups()
    if not re.search(r"\broast", letter.response.lower()):
        if "The sender waits" in letter.request:
            yield Call("glove_mesh_acknowledge", {"message_id": message, "note": ABILITIES})
        return "Noted."
    answer, waits = yield from schedule(letter.response, f"Asked by {who} in message {message}.", memory)
    return f"{answer} {who} will hear of it." if waits else (yield from _send(who, message, answer))


def chat(text: str, memory: Memory) -> Plan:
    """A person talks with the roaster."""
    if not re.search(r"\b(roast|when|plan|next)", text.lower()):
        return ABILITIES
    answer, waits = yield from schedule(text, "Asked in the chat.", memory)
    return f"{answer} I have asked, and will write to you here." if waits else answer


def planned(letter: Letter) -> Plan:
    """The plan has it now, or staff have said it in their own words, or nobody knew in time."""
    question, *_, last = letter.request.splitlines()
    plan = _ROAST.findall(letter.response)
    answer = _in_words(_named(plan, question) or plan) or letter.response
    if not letter.answered:
        answer = f"Nobody could tell me: {question}"
    owed = _OWED.fullmatch(last)
    return (yield from _send(owed[1], owed[2], answer)) if owed else answer


def schedule(text: str, asked_by: str, memory: Memory) -> Generator[Call, Done, tuple[str, bool]]:
    """When what the text names is roasted, or all that is on the plan; and whether that has to be waited for."""
    done = yield Call("look_up_roasts", {})
    plan, missing = _ROAST.findall(done.result), _MISSING.findall(done.result)
    named = _named(plan, text)
    gone = [(sku, name) for sku, name in missing if is_named(text, sku, name)]
    if named or (plan and not gone):
        not_there = "".join(f" {name} is not on the plan." for _, name in gone)
        return _in_words(named or plan) + not_there, False
    said = f"{gone[0][1]} is not on the roasting plan." if gone else "The roasting plan does not say that just now."
    if POST not in memory.tools:
        return said, False
    request = (
        f"{first_line(text)}\nPut it on the roasting plan, or answer in your own words. What the plan says now:\n"
        f"{done.result[:MAX_SHOWN]}\n{asked_by}"
    )
    posted = yield Call(POST, {"tag": f"roast:{gone[0][0] if gone else ANY}", "request": request, "due_in_s": DUE_S})
    return said, posted.ok


def _send(who: str, message: str, answer: str) -> Plan:
    sent = yield Call(SEND, {"to": who, "content": answer, "in_reply_to": message})
    return f"{who} has its answer." if sent.ok else sent.result


def _named(plan: list[tuple[str, str, str, str]], text: str) -> list[tuple[str, str, str, str]]:
    return [roast for roast in plan if is_named(text, roast[0], roast[3])]


def _in_words(roasts: list[tuple[str, str, str, str]]) -> str:
    """Of lines of the plan; nothing where there are none."""
    if not roasts:
        return ""
    told = "; ".join(f"{name} on {day}, {bags}" for _, day, bags, name in roasts[:MAX_TOLD])
    more = f"; and {len(roasts) - MAX_TOLD} more" if len(roasts) > MAX_TOLD else ""
    return f"Next roast{'' if len(roasts) == 1 else 's'}: {told}{more}."
