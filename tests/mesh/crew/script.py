"""What each member of the crew says, from its prompt alone."""

import re

PARTS = (1, 2, 3)
LETTER = re.compile(r"Message (\S+) from ([^\s,.]+)[^\n]*\n\[\[\w+ response\]\]\n(.*?)\n\[\[end of mail", re.DOTALL)


def planner(messages, tools):
    """Asks three writers, then the reviewer, then says the document."""
    said = _all(messages)
    parts = dict(re.findall(r"^(Text of part (\d)\.)$", said, re.MULTILINE))
    if approved := re.search(r"^(Approved: .*)$", said, re.MULTILINE):
        return approved[1] if not _has_said(messages, "Approved") else "Nothing more."
    if len(parts) == len(PARTS) and not _has_sent(messages, "Review:"):
        return _send("reviewer", "Review: " + " ".join(sorted(parts)))
    if not _has_sent(messages, "Write part"):
        orders = [(n, f"Write part {n}.") for n in PARTS] + [(n, f"Part {n} is to be short.") for n in PARTS]
        return [_send(f"writer/{n}", text) for n, text in orders]
    return "I wait for the others."


def writer(messages, tools):
    """Writes its part with a tool that takes its time, and sends it back."""
    orders = [
        (pk, part) for pk, _, text in LETTER.findall(_all(messages)) for part in re.findall(r"Write part (\d)", text)
    ]
    for pk, part in orders:
        if not _used(messages, "write"):
            return {"type": "tool_use", "name": "write", "input": {"part": int(part)}}
        if not _has_sent(messages, f"Text of part {part}."):
            return _send("planner", f"Text of part {part}.", pk)
    return "Written."


def reviewer(messages, tools):
    """Approves what it is sent, once."""
    for pk, _, text in LETTER.findall(_all(messages)):
        if text.startswith("Review: ") and not _has_sent(messages, "Approved"):
            return _send("planner", f"Approved: {text.removeprefix('Review: ')}", pk)
    return "Reviewed."


def _send(to, content, in_reply_to=None):
    given = {"to": to, "content": content} | ({"in_reply_to": in_reply_to} if in_reply_to else {})
    return {"type": "tool_use", "name": "glove_mesh_send_message", "input": given}


def _blocks(messages, role):
    return [block for message in messages if message["role"] == role for block in message["content"]]


def _all(messages):
    return "\n".join(block["text"] for block in _blocks(messages, "user") if block["type"] == "text")


def _used(messages, tool):
    return [block for block in _blocks(messages, "assistant") if block["type"] == "tool_use" and block["name"] == tool]


def _has_sent(messages, start):
    return any(block["input"]["content"].startswith(start) for block in _used(messages, "glove_mesh_send_message"))


def _has_said(messages, start):
    return any(block["type"] == "text" and block["text"].startswith(start) for block in _blocks(messages, "assistant"))
