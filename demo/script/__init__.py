"""A model of a few rules: it makes agents work with no key, deterministically, on the same prompts as a real one.

A plan (of `replies` and `letters` for the shop's agent, of `plain` for others) is a generator that yields tool calls and is sent
their results. Here the prompt's record of what was done since the last reply is played into the plans again, and the first call
that is not on record is the answer.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from agents.loop import SUMMARISE
from demo.script import letters, plain, replies, roaster, summary
from demo.script.hearing import POST, SEND, Call, Done, Event, Letter, Reminded, Replied, Said, Summed, events
from demo.script.hearing import read as hear
from demo.script.memory import Memory, Plan


def reply(messages: list[dict[str, Any]], tools: Sequence[Any]) -> str | dict[str, Any]:
    """The next tool call, or the text that ends the turn. Any prompt gets one of the two."""
    memory = Memory(frozenset(tool.name for tool in tools))
    happened = events(messages)
    new = _since_last_reply(happened)
    for event in happened[: len(happened) - len(new)]:
        memory.note(event)
    if happened and happened[-1] == Said(SUMMARISE):
        return summary.write(memory.last_reply, new[:-1])
    done = [event for event in new if isinstance(event, Done)]
    said = []
    for event in _to_answer(new, memory):
        memory.note(event)
        outcome = _play(_plan(event, memory), done, memory)
        if isinstance(outcome, Call):
            return {"type": "tool_use", "name": outcome.name, "input": outcome.input}
        said.append(outcome)
    return "\n\n".join([*said, *_still_waiting(new, said)]) or replies.ABILITIES


def _to_answer(new: list[Event], memory: Memory) -> Iterator[Said | Letter]:
    """What was said or came by mail, in order; a summary's leftovers among them."""
    for event in new:
        if isinstance(event, Summed):
            memory.note(event)
            memory.last_reply, left = summary.read(event.words)
            yield from (found for found in map(hear, left) if isinstance(found, Said | Letter))
        elif isinstance(event, Said | Letter):
            yield event


def _still_waiting(new: list[Event], said: list[str]) -> list[str]:
    """A word about the blocking requests that the prompt reminds of, save those that this turn made or speaks of."""
    made = [event.call for event in new if isinstance(event, Done)]
    posted = [
        call.input.get("request" if call.name == POST else "content", "") for call in made if call.name in (POST, SEND)
    ]
    reminded = [line for event in new if isinstance(event, Reminded) for line in event.requests]
    left = [line for line in reminded if not any(line in text for text in (*posted, *said))]
    return [f"(I have not forgotten: I still wait for an answer to “{'” and “'.join(left)}”.)"] if left else []


def _since_last_reply(happened: list[Event]) -> list[Event]:
    last = max((place for place, event in enumerate(happened) if isinstance(event, Replied)), default=-1)
    return happened[last + 1 :]


def _plan(event: Said | Letter, memory: Memory) -> Plan:
    shop = "look_up_stock" in memory.tools
    if "look_up_roasts" in memory.tools:
        return roaster.letter(event, memory) if isinstance(event, Letter) else roaster.chat(event.text, memory)
    if isinstance(event, Letter):
        return letters.answer(event, memory) if shop else letters.other(event, memory)
    return replies.answer(event.text, memory) if shop else plain.answer(event.text, memory)


def _play(plan: Plan, record: list[Done], memory: Memory) -> Call | str:
    """Play the record into a plan: the text that it ends with, or the first call that is not on record."""
    try:
        call = next(plan)
        while record:
            done = record.pop(0)
            memory.note(done)
            call = plan.send(done)
    except StopIteration as end:
        return end.value
    return call
