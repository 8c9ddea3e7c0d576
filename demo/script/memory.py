"""What the script knows: all of it read from the prompt, so that a restart forgets nothing."""

import re
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any

from demo.script.hearing import POST, SEND, Call, Done, Event, Letter, Replied, Summed

Plan = Generator[Call, Done, str]  # yields calls, is sent their results, returns what to tell the customer
MAX_TODOS = 20


@dataclass(frozen=True)
class Open:
    """A request that nobody has answered yet."""

    item: str
    tag: str
    request: str
    blocking: bool


@dataclass
class Memory:
    """The open requests by number, the task list, and what was said last."""

    tools: frozenset[str]
    open: dict[str, Open] = field(default_factory=dict)
    todos: list[dict[str, str]] = field(default_factory=list)
    last_reply: str = ""

    def note(self, event: Event) -> None:
        """Take in what happened."""
        match event:
            case Replied(text):
                self.last_reply = text
            case Summed(_, requests, tasks):
                self.open = {item: Open(item, tag, request, blocking) for item, tag, blocking, request in requests}
                self.todos = [{"content": said, "activeForm": said, "status": status} for status, said in tasks]
            case Letter(item=item):
                self.open.pop(item, None)
            case Done(Call(name, given), result, True) if name == POST:
                number = re.search(r"\d+", result)
                item = number[0] if number else f"?{len(self.open)}"
                self.open[item] = Open(item, given["tag"], given["request"], bool(given.get("blocking")))
            case Done(Call(name, {"blocking": True, "to": to, "content": content}), result, True) if name == SEND:
                if sent := re.search(r"Sent as message (\S+)\. Item (\d+) waits", result):
                    message, item = sent.groups()
                    request = f"Waiting for {to} to answer: {content}"
                    self.open[item] = Open(item, f"mesh:waiting:{message}", request, True)
            case Done(Call("glove_update_inbox", given), _, True):
                self.open.pop(str(given.get("id")), None)
            case Done(Call("glove_update_tasks", given), _, True):
                self.todos = list(given["todos"])

    def waiting_for(self, prefix: str) -> Iterable[Open]:
        """The open requests whose tag begins so."""
        return [request for request in self.open.values() if request.tag.startswith(prefix)]

    def post(self, tag: str, request: str, *, blocking: bool = False) -> Generator[Call, Done, Done]:
        """Post a request to the inbox."""
        given: dict[str, Any] = {"tag": tag, "request": request}
        if blocking:
            given["blocking"] = True
        return (yield Call(POST, given))

    def task(self, content: str, doing: str, status: str) -> Generator[Call, Done, None]:
        """Put one entry on the task list, or change its state. Finished ones leave first when the list is long."""
        entry = {"content": content, "activeForm": doing, "status": status}
        if "glove_update_tasks" not in self.tools:
            return
        todos = [entry if todo["content"] == content else todo for todo in self.todos]
        if entry not in todos:
            todos.append(entry)
        while len(todos) > MAX_TODOS:
            todos.remove(next((todo for todo in todos if todo["status"] == "completed"), todos[0]))
        if todos != self.todos:
            yield Call("glove_update_tasks", {"todos": todos})
