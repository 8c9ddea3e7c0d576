"""A conversation with the script, without agents, database or server: the prompt is built here as the Messages API has it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agents.adapters.base import ToolSpec
from agents.frames import frame
from agents.prompt import validate
from demo.script import reply

SHELF = {"yirgacheffe": ("Yirgacheffe", 1800, 24), "huila": ("Huila", 1650, 0), "decaf": ("Sierra Decaf", 1550, 1)}
MAX_CALLS = 12
MESSAGE = "01990000-0000-7000-8000-000000000001"


@dataclass
class Mail:
    """What `frame` wants of an item."""

    id: int
    tag: str
    request: str
    response: str
    outcome: str = "answered"
    asked: bool = True
    resolved_by: str = "barista"
    resolved_via: str = "admin"
    resolved_at: Any = "2026-12-01 09:00"
    due_at: Any = None


class Moment(str):
    """A time that needs no time zone."""

    def __format__(self, spec: str) -> str:
        return str(self)


@dataclass
class Chat:
    """Says things to the script, runs the calls that it makes on stand-ins, and keeps the prompt."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    answers: dict[str, Callable[..., Any]] = field(default_factory=dict)
    names: tuple[str, ...] = ("look_up_stock", "place_order", "list_orders", "check_payment", "refund")
    reminder: str = ""
    on_mesh: bool = True
    refused: tuple[str, ...] = ()  # calls that end in an error
    items: int = 0

    @property
    def tools(self) -> list[ToolSpec]:
        builtin: tuple[str, ...] = ("glove_post_to_inbox", "glove_update_inbox", "glove_update_tasks")
        builtin += ("glove_mesh_send_message", "glove_mesh_acknowledge") if self.on_mesh else ()
        return [ToolSpec(name, name, {"type": "object"}) for name in self.names + builtin]

    def say(self, text: str) -> str:
        self._tell(text)
        return self.turn()

    def mail(self, mail: Mail) -> str:
        mail.resolved_at = Moment(mail.resolved_at)
        self._tell(frame(mail, "4f1c2a99d0"))
        return self.turn()

    def turn(self) -> str:
        """Run to the next reply, as the loop does."""
        for _ in range(MAX_CALLS):
            said = reply(self.prompt(), self.tools)
            if isinstance(said, str):
                assert said.strip()
                self.messages.append({"role": "assistant", "content": [{"type": "text", "text": said}]})
                return said
            self.run({**said, "id": f"toolu_{len(self.calls)}"})
        raise AssertionError(f"no reply after {MAX_CALLS} calls")

    def prompt(self) -> list[dict[str, Any]]:
        prompt = list(self.messages)
        if self.reminder and prompt[-1]["role"] == "user":
            content = [*prompt[-1]["content"], {"type": "text", "text": self.reminder}]
            prompt[-1] = {"role": "user", "content": content}
        validate(prompt)
        return prompt

    def run(self, call: dict[str, Any]) -> None:
        self.calls.append((call["name"], call["input"]))
        result = self.result_of(call["name"], call["input"])
        block = {"type": "tool_result", "tool_use_id": call["id"], "content": result}
        if call["name"] in self.refused:
            block |= {"content": "Refused.", "is_error": True}
        self.messages.append({"role": "assistant", "content": [call]})
        self.messages.append({"role": "user", "content": [block]})

    def result_of(self, name: str, given: dict[str, Any]) -> str:
        if name in self.answers:
            return self.answers[name](**given)
        if name == "look_up_stock":
            return "\n".join(
                f"{sku}: {title}, €{cents // 100}.{cents % 100:02d} a bag, {left} left"
                for sku, (title, cents, left) in SHELF.items()
                if given.get("sku", sku) == sku
            )
        if name == "place_order":
            title, cents, left = SHELF[given["sku"]]
            if given["bags"] > left:
                return f"Not ordered. Not enough: {left} bags of {title} left, {given['bags']} wanted. Nothing was ordered."
            return (
                f"Order 7 is placed: {given['bags']} bags of {title}, €{cents * given['bags'] / 100:.2f}, not paid yet."
            )
        if name == "look_up_roasts":
            return (
                "huila: Thursday 3 December, 12 bags of Huila\nyirgacheffe: Monday 7 December, 1 bag of Yirgacheffe\n"
                "decaf: Sierra Decaf, not on the plan"
            )
        if name == "glove_mesh_send_message":
            self.items += 1
            if given.get("blocking"):
                return f"Sent as message {MESSAGE}. Item {self.items} waits for the answer, which will come to you as mail; go on."
            return f"Sent as message {MESSAGE}."
        if name == "glove_post_to_inbox":
            self.items += 1
            return f"Posted as item {self.items}."
        return "Done."

    def called(self, name: str) -> list[dict[str, Any]]:
        return [given for called, given in self.calls if called == name]

    def _tell(self, text: str) -> None:
        if not self.messages or self.messages[-1]["role"] != "user":
            self.messages.append({"role": "user", "content": []})
        self.messages[-1]["content"].append({"type": "text", "text": text})
