"""Running turns in tests, and reading what came of them."""

from typing import Any

from agents.models import Conversation, Message, ToolCall, Turn
from agents.services import turns
from agents.services.conversations import say
from inbox.invariants import breaches

OPEN = ["queued", "running", "waiting"]


def open_turn(conversation: Conversation) -> Turn | None:
    """Its open turn."""
    return Turn.objects.filter(conversation=conversation, status__in=OPEN).first()


def last_turn(conversation: Conversation) -> Turn:
    """Its newest turn."""
    return Turn.objects.filter(conversation=conversation).latest("pk")


def run_queued(conversation: Conversation, most: int = 20) -> list[str]:
    """Start its queued turn, and those that follow from it; how each was left."""
    left = []
    while (turn := Turn.objects.filter(conversation=conversation, status="queued").first()) and most:
        left.append(turns.start(turn.pk))
        most -= 1
        if left[-1] not in ("done", "failed"):
            break
    return left


def ask(conversation: Conversation, text: str = "Hello.") -> str:
    """Say this and run the turn; how it was left."""
    say(conversation.pk, text)
    return run_queued(conversation)[0]


def transcript(conversation: Conversation) -> list[tuple[str, str, str]]:
    """Who said what, in order: (sender, kind, text)."""
    rows = Message.objects.filter(conversation=conversation, place__isnull=False).order_by("place")
    return list(rows.values_list("sender", "kind", "text"))


def calls(conversation: Conversation) -> list[tuple[str, str, str]]:
    """Its tool calls in order: (name, status, result)."""
    rows = ToolCall.objects.filter(turn__conversation=conversation).order_by("pk")
    return list(rows.values_list("name", "status", "result"))


def assert_sound() -> None:
    """Every promise that can be read from the data holds."""
    found: list[Any] = [(breach.check.name, breach.rows) for breach in breaches()]
    assert not found, found
