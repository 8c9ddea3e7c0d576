"""The storm's model: it does what the new texts wish for, and answers with the words that it heard.

A text may hold `word:<w>`, which the answer repeats, and with it a wish: `wish:post`, `wish:work`, `wish:trouble` and so on.
"""

import random
import re

from agents.adapters.base import ModelError
from tests.storm import agent

MOST_CALLS = 4


def reply(messages, tools):
    # Now and then long enough that a lease lapses while its worker is stopped, and the turn runs on elsewhere when it wakes.
    agent.pause(*random.choices([(0, 0.03), (0.5, 2)], [3, 1])[0])
    new = _since_last_reply(messages)
    texts = [block["text"] for block in new if block.get("type") == "text"]
    words = re.findall(r"\bword:(\w+)", " ".join(texts))
    wishes = re.findall(r"\bword:(\w+) wish:(\w+)", " ".join(texts))
    if any(wish == "trouble" for _, wish in wishes) and random.random() < 0.5:
        raise ModelError("overloaded")
    calls = [_call(wish, word) for word, wish in wishes if wish in CALLS][:MOST_CALLS]
    said = {"type": "text", "text": f"Heard: {' '.join(words) or 'nothing new'}."}
    return [said, *calls]


def _since_last_reply(messages):
    blocks = []
    for message in reversed(messages):
        if message["role"] == "assistant":
            break
        content = message["content"]
        blocks = ([{"type": "text", "text": content}] if isinstance(content, str) else content) + blocks
    return blocks


CALLS = {
    "post": lambda word: (
        "glove_post_to_inbox",
        {"tag": f"storm:{word}", "request": f"What of {word}?", "blocking": random.random() < 0.5, "due_in_s": 20},
    ),
    "short": lambda word: (
        "glove_post_to_inbox",
        {"tag": "storm:short", "request": f"Quickly, {word}?", "due_in_s": 1},
    ),
    "work": lambda word: ("work", {"what": word}),
    "long": lambda word: ("work_long", {"what": word}),
    "cron": lambda word: ("glove_post_to_inbox", {"tag": f"cron:{word}", "request": f"When, {word}?"}),
    "again": lambda word: ("work_again", {"what": word}),
    "tasks": lambda word: (
        "glove_update_tasks",
        {"todos": [{"content": f"Do {word}", "activeForm": f"Doing {word}", "status": "pending"}]},
    ),
}


def _call(wish, word):
    name, given = CALLS[wish](word)
    return {"type": "tool_use", "name": name, "input": given}
