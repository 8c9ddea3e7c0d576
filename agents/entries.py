"""A history as the loop sees it, whatever store keeps it."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

FINISHED = ("done", "failed", "denied", "aborted", "unknown")


@dataclass
class Call:
    """One tool call of an agent's message. `input` is JSON text; `result` is set once it is finished."""

    call_id: str
    name: str
    input: str
    status: str = "pending"
    result: str = ""
    id: Any = None

    @property
    def finished(self) -> bool:
        """Whether its result stands."""
        return self.status in FINISHED

    @property
    def key(self) -> str:
        """For services that take an idempotency key: the same whenever this call runs again. The model's id is in it, since a row's
        number comes again in a restored backup and on another site, and the service would take that call for this one."""
        return f"call-{self.id}-{hashlib.sha256(self.call_id.encode()).hexdigest()[:16]}"


@dataclass
class Entry:
    """One message. `sender` is user or agent; `kind` message, inbox, summary, skill or notice; `blocks` the provider's own form."""

    sender: str
    text: str
    kind: str = "message"
    blocks: str = ""
    calls: list[Call] = field(default_factory=list)


@dataclass
class History:
    """What the next prompt is made of: the entries since the last summary, and the open blocking requests."""

    entries: list[Entry]
    reminders: list[Any] = field(default_factory=list)

    @property
    def unanswered(self) -> bool:
        """Whether something stands there that the model has not answered."""
        if not self.entries:
            return False
        last = self.entries[-1]
        return last.sender == "user" or bool(last.calls)
