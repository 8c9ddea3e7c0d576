"""From a history to the messages of a model call, and the validator that stands before every call."""

import itertools
import json
from typing import Any

from agents.entries import Call, Entry, History
from agents.frames import without_marks
from inbox.text import first_line, is_blank

WORDS = {
    "unknown": "The outcome of this call is unknown: it was interrupted while it ran. Do not assume that it did or did not happen.",
    "aborted": "This call was not run.",
    "denied": "This call was refused.",
}


class InvalidPrompt(ValueError):
    """The history does not make a valid prompt."""


def build(history: History) -> list[dict[str, Any]]:
    """The messages of the Messages API, with one reminder of open blocking requests at the end, which is never stored."""
    messages: list[dict[str, Any]] = []
    taken: set[str] = set()
    for entry in history.entries:
        if entry.sender == "agent":
            content, ids = _agent_content(entry, taken)
            messages.append({"role": "assistant", "content": content})
            if entry.calls:
                results = [tool_result(call, ids.get(call.call_id, call.call_id)) for call in entry.calls]
                messages.append({"role": "user", "content": results})
        else:
            text = entry.text if entry.kind == "inbox" else without_marks(entry.text)  # only letters have marks
            _user_content(messages).append({"type": "text", "text": text})
    if history.reminders:
        _user_content(messages).append({"type": "text", "text": reminder(history.reminders)})
    return messages


def tool_result(call: Call, use_id: str) -> dict[str, Any]:
    """The result of a finished call as the model reads it, for the use of this id in the prompt."""
    said = call.result if not is_blank(call.result) else WORDS.get(call.status, "(no output)")
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": use_id, "content": said}
    return block if call.status == "done" else {**block, "is_error": True}


def reminder(requests: list[Any]) -> str:
    """One line for each open blocking request."""
    lines = [f"- item {one.id}, {one.tag}: {without_marks(first_line(one.request))}" for one in requests]
    return "Reminder: you said that you would wait for these requests. They are still open:\n" + "\n".join(lines)


def shortened(messages: list[dict[str, Any]], longest: int) -> list[dict[str, Any]]:
    """The same prompt, in which texts and results of more than `longest` characters are shown in part."""
    return [
        {**message, "content": [_shortened(block, longest) for block in message["content"]]} for message in messages
    ]


def validate(messages: list[dict[str, Any]]) -> None:
    """Raise InvalidPrompt unless: roles alternate and begin and end with user; only the assistant uses tools, each under an id of
    its own; every use is answered exactly once in the next message, results first; no text is blank."""
    if not messages or messages[0]["role"] != "user" or messages[-1]["role"] != "user":
        raise InvalidPrompt("A prompt begins and ends with the user.")
    asked: list[str] = []
    seen: set[str] = set()
    for index, message in enumerate(messages):
        role, content = message["role"], message["content"]
        if role != ("user" if index % 2 == 0 else "assistant"):
            raise InvalidPrompt(f"Message {index} is not {role}'s turn.")
        if not content:
            raise InvalidPrompt(f"Message {index} is empty.")
        results = [block["tool_use_id"] for block in content if block.get("type") == "tool_result"]
        if any(block.get("type") == "tool_result" for block in content[len(results) :]):
            raise InvalidPrompt(f"Message {index} has a tool result after other content.")
        if sorted(results) != sorted(asked):
            raise InvalidPrompt(f"Message {index} answers {results}, but the calls before it are {asked}.")
        if any(block.get("type") == "text" and is_blank(block["text"]) for block in content):
            raise InvalidPrompt(f"Message {index} holds a blank text.")
        asked = [block["id"] for block in content if block.get("type") == "tool_use"]
        if asked and role == "user":
            raise InvalidPrompt(f"Message {index} is the user's and holds a call.")
        if len(seen.union(asked)) != len(seen) + len(asked):
            raise InvalidPrompt(f"Message {index} has a call with the id of another.")
        seen.update(asked)


def _shortened(block: dict[str, Any], longest: int) -> dict[str, Any]:
    key = {"text": "text", "tool_result": "content"}.get(str(block.get("type")))
    if key is None or len(block[key]) <= longest:
        return block
    said, half = block[key], longest // 2
    return {**block, key: f"{said[:half]}\n[{len(said) - 2 * half} characters left out]\n{said[-half:]}"}


def _agent_content(entry: Entry, taken: set[str]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The blocks of a reply, and the ids of its calls as the prompt has them: an earlier reply may have had the same ones, where a
    provider counts them anew in each or the history came from elsewhere."""
    blocks = json.loads(entry.blocks) if entry.blocks else [{"type": "text", "text": entry.text}]
    ids: dict[str, str] = {}
    for block in blocks:
        if block.get("type") == "tool_use":
            block["id"] = ids.setdefault(block["id"], _free(block["id"], taken.union(ids.values())))
    taken.update(ids.values())
    return blocks, ids


def _free(given: str, taken: set[str]) -> str:
    numbered = (f"{given[:100]}_{number}" for number in itertools.count(2))
    return next(one for one in itertools.chain([given], numbered) if one not in taken)


def _user_content(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The content of the user's message that is being written: consecutive ones are one."""
    if not messages or messages[-1]["role"] != "user":
        messages.append({"role": "user", "content": []})
    return messages[-1]["content"]
