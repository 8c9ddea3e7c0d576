"""The summary that the script writes when a history has grown long, and reads when it carries on."""

import json

from demo.script.hearing import Done, Event, Letter, Said

LAST = "I said last: "
LEFT = "Not answered yet: "


def write(last_reply: str, new: list[Event]) -> str:
    """What was said last, and word for word what nobody has answered yet.

    Where something was done about that already, its result stands instead: it must not be done again.
    """
    done = [event.result for event in new if isinstance(event, Done)]
    if done:
        return LAST + json.dumps(f"I was interrupted. What I had found: {done[-1]}", ensure_ascii=False)
    left = [LEFT + json.dumps(event.text, ensure_ascii=False) for event in new if isinstance(event, Said | Letter)]
    return "\n".join([LAST + json.dumps(last_reply, ensure_ascii=False), *left])


def read(words: str) -> tuple[str, list[str]]:
    """What was said last, and the texts that are still to be answered."""
    lines = words.splitlines()
    last = next((line.removeprefix(LAST) for line in lines if line.startswith(LAST)), '""')
    return _text(last), [_text(line.removeprefix(LEFT)) for line in lines if line.startswith(LEFT)]


def _text(quoted: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        return quoted
