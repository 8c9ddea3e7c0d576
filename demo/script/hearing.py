"""What a prompt says, as a list of events: for a script that has to understand the same messages as a real model."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

POST = "glove_post_to_inbox"
SEND = "glove_mesh_send_message"


@dataclass(frozen=True)
class Said:
    """The customer wrote this."""

    text: str


@dataclass(frozen=True)
class Letter:
    """Mail: `item` is the number of the request, `how` says who closed it and when, `answered` whether by an answer."""

    item: str
    tag: str
    how: str
    request: str
    response: str
    text: str = field(default="", compare=False, repr=False)  # the whole frame

    @property
    def answered(self) -> bool:
        return self.how.startswith(("answered", "sent"))


@dataclass(frozen=True)
class Call:
    """A call of a tool, yielded by a plan."""

    name: str
    input: dict[str, Any]


@dataclass(frozen=True)
class Done:
    """A call that was made, and its result."""

    call: Call
    result: str
    ok: bool


@dataclass(frozen=True)
class Replied:
    """The agent's last word of an earlier turn."""

    text: str


@dataclass(frozen=True)
class Reminded:
    """The system's reminder, at the end of a prompt: the first lines of the blocking requests that are open."""

    requests: tuple[str, ...]


@dataclass(frozen=True)
class Summed:
    """What stands for all that was before: the script's own words, the open requests, the open tasks."""

    words: str
    requests: tuple[tuple[str, str, bool, str], ...]  # item, tag, blocking, request
    tasks: tuple[tuple[str, str], ...]  # status, content


Event = Said | Letter | Done | Replied | Reminded | Summed

_LETTER = re.compile(
    r"\[\[mail (?P<nonce>\w+) item (?P<item>\d+) tag (?P<tag>\S+?)(?: unasked)?: (?P<how>[^\n]*)\]\]\n"
    r"\[\[(?P=nonce) request\]\]\n(?P<request>.*)\n\[\[(?P=nonce) response\]\]\n(?P<response>.*)\n\[\[end of mail (?P=nonce)\]\]",
    re.DOTALL,
)
_REMINDER = re.compile(r"Reminder: you said that you would wait .*still open:((?:\n- item \S+, \S+: .*)+)")
_WAIT = re.compile(r"Waiting for (?P<whom>.+?) to answer: (?P<question>.*)")
_SUMMARY = re.compile(
    r"\[Summary of the conversation so far, made by the system\]\n(?P<words>.*?)"
    r"(?:\n\n\[Your open inbox requests\]\n(?P<requests>.*?))?(?:\n\n\[Your open tasks\]\n(?P<tasks>.*))?",
    re.DOTALL,
)
_REQUEST = re.compile(r"^- item (\S+) \((\S+?)(, blocking)?\): (.*?)(?=\n- item \S+ \(|\Z)", re.DOTALL | re.MULTILINE)


def events(messages: list[dict[str, Any]]) -> list[Event]:
    """Everything that the prompt tells, in order."""
    found: list[Event] = []
    asked: dict[str, Call] = {}
    for message in messages:
        blocks = _blocks(message)
        found += _of(message["role"], blocks, asked)
        asked = {
            block["id"]: Call(block["name"], block["input"]) for block in blocks if block.get("type") == "tool_use"
        }
    return found


def _of(role: str, blocks: list[dict[str, Any]], asked: dict[str, Call]) -> Iterator[Event]:
    """The events of one message; `asked` are the calls of the message before it."""
    if role == "assistant":
        if not any(block.get("type") == "tool_use" for block in blocks):
            yield Replied("\n\n".join(block["text"] for block in blocks if block.get("type") == "text"))
        return
    for block in blocks:
        if block.get("type") == "tool_result":
            call = asked.get(block["tool_use_id"], Call("", {}))
            yield Done(call, _plain(block.get("content", "")), not block.get("is_error"))
        elif block.get("type") == "text":
            yield read(block["text"])


def read(text: str) -> Said | Letter | Reminded | Summed:
    """A letter, a reminder or a summary where the text is one whole, else the customer's words."""
    if summary := _SUMMARY.fullmatch(text):
        requests = _REQUEST.findall(summary["requests"] or "")
        return Summed(
            summary["words"],
            tuple((item, tag, bool(blocking), request) for item, tag, blocking, request in requests),
            tuple(re.findall(r"^- \[(\w+)\] (.*)$", summary["tasks"] or "", re.MULTILINE)),
        )
    if reminder := _REMINDER.fullmatch(text):
        return Reminded(tuple(question_of(line.split(": ", 1)[1]) for line in reminder[1].strip().splitlines()))
    found = _LETTER.fullmatch(text.strip())
    if found is None:
        return Said(text)
    return Letter(found["item"], found["tag"], found["how"], found["request"], found["response"], text)


def asked_of(request: str) -> tuple[str, str] | None:
    """Whom an open letter waits for, and what it asked; None for any other request."""
    found = _WAIT.match(request)
    return (found["whom"], found["question"]) if found else None


def question_of(request: str) -> str:
    """The first line of a request, in words for a customer."""
    first = request.splitlines()[0] if request else ""
    asked = asked_of(first)
    return asked[1] if asked else first


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _plain(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content) if isinstance(content, list) else json.dumps(content)
