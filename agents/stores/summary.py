"""The text of a summary: the model's words, and the store's own list of what is open."""

from collections.abc import Iterable
from typing import Any

from inbox.text import MAX_BYTES, clean


def summary_text(words: str, requests: Iterable[Any], tasks: Iterable[Any]) -> str:
    """What the next prompt begins with. `requests` have id, tag, blocking, request; `tasks` content and status.
    Of long requests each gets its share of 64 kB: twenty whole ones would be too long for any prompt, for good."""
    requests = list(requests)
    share = MAX_BYTES // max(len(requests), 1)
    parts = [f"[Summary of the conversation so far, made by the system]\n{words.strip()}"]
    if lines := [
        f"- item {r.id} ({r.tag}{', blocking' if r.blocking else ''}): {clean(r.request, limit=share)}"
        for r in requests
    ]:
        parts.append("[Your open inbox requests]\n" + "\n".join(lines))
    if lines := [f"- [{task.status}] {task.content}" for task in tasks if task.status != "completed"]:
        parts.append("[Your open tasks]\n" + "\n".join(lines))
    return "\n\n".join(parts)
