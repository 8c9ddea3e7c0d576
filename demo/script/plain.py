"""The script for an agent that is not the shop's: it does what it is told in so many words, so that one's own tools, requests
and resolvers can be tried before there is a key."""

import json
import re

from demo.script.hearing import Call
from demo.script.memory import Memory, Plan
from demo.script.replies import waiting


def answer(text: str, memory: Memory) -> Plan:
    """`ask TAG REQUEST`, `wait TAG REQUEST`, the name of a tool with its arguments as JSON, or help."""
    word, _, rest = text.strip().partition(" ")
    if asked := re.fullmatch(r"(ask|wait)\s+(\S+)\s+(.+)", text.strip(), re.IGNORECASE | re.DOTALL):
        return post(asked[2], asked[3], asked[1].lower() == "wait", memory)
    if word in memory.tools:
        return use(word, rest)
    if re.search(r"\bwaiting\b", text.lower()):
        return waiting(text, memory)
    return explain(memory)


def post(tag: str, request: str, blocking: bool, memory: Memory) -> Plan:
    """Post it, and go on."""
    done = yield from memory.post(tag, request, blocking=blocking)
    return "Asked. I will write to you here when the answer comes." if done.ok else done.result


def use(name: str, arguments: str) -> Plan:
    """Call the tool; its result is the reply."""
    try:
        given = json.loads(arguments or "{}")
    except ValueError:
        given = None
    if not isinstance(given, dict):
        return f'Write its arguments as JSON: {name} {{"name": "value"}}'
    done = yield Call(name, given)
    return done.result


def explain(memory: Memory) -> Plan:
    """What this can do, and what it is not."""
    yield from ()
    own = sorted(name for name in memory.tools if not name.startswith("glove_"))
    lines = [
        "I am a script, not a language model. With ANTHROPIC_API_KEY set, this agent talks by itself; until then, say one of:",
        *(f'• {name} {{"argument": "value"}}' for name in own),
        "• ask TAG REQUEST, for example: ask question:opening When do you open?",
        "• wait TAG REQUEST: the same, and I say that I wait",
        "• what are you waiting for?",
    ]
    return "\n".join(lines)
