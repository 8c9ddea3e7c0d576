"""What waits for staff besides requests: turns that failed and were not tried again, and tool calls in doubt."""

from typing import Any

from django.db.models import Exists, OuterRef, QuerySet

from agents import access
from agents.models import Conversation, Turn
from agents.services import doubts

MOST = 99  # counting stops here


def failed_turns(turns: QuerySet[Turn]) -> QuerySet[Turn]:
    """Those that failed and were the last of a conversation that is still open. A retry, or the next message, takes them off."""
    later = Turn.objects.filter(conversation=OuterRef("conversation"), pk__gt=OuterRef("pk"))
    return turns.filter(~Exists(later), status=Turn.Status.FAILED, conversation__status=Conversation.Status.OPEN)


def counts(user: Any) -> dict[str, str]:
    """How many of each this person may see: "3", or "99+". What she may not look at is left out, and so is none."""
    seen = access.visible_conversations(user)
    rows: dict[str, QuerySet[Any]] = {}
    if user.has_perm("agents.view_turn"):
        rows["failed"] = failed_turns(Turn.objects.filter(conversation__in=seen))
    if user.has_perm("agents.view_toolcall"):
        rows["in_doubt"] = doubts.in_doubt().filter(turn__conversation__in=seen)
    found = {name: _count(some) for name, some in rows.items()}
    return {name: f"{MOST}+" if number > MOST else str(number) for name, number in found.items() if number}


def _count(rows: QuerySet[Any]) -> int:
    return rows.order_by("pk").values("pk")[: MOST + 1].count()
