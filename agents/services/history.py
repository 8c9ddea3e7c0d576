"""Writing a history that no turn made: imports, and the store contract's own methods."""

from django.db import transaction
from django.db.models import Max

from agents.entries import Entry
from agents.models import Conversation, Message, ToolCall, Turn
from agents.services import hot
from inbox.clock import clock


def append(conversation_id: int, entries: list[Entry]) -> None:
    """Add entries after the last place. Calls in them are finished already, and belong to a turn that is recorded as done."""
    with transaction.atomic():
        hot.lock_conversation(conversation_id)
        messages = Message.objects.filter(conversation_id=conversation_id)
        last = messages.aggregate(last=Max("place"))["last"] or 0
        turn = count_turn(conversation_id) if any(entry.calls for entry in entries) else None
        for place, entry in enumerate(entries, start=last + 1):
            message = Message.objects.create(
                conversation_id=conversation_id,
                place=place,
                sender=entry.sender,
                kind=entry.kind,
                text=entry.text,
                blocks=entry.blocks,
                turn=turn,
            )
            ToolCall.objects.bulk_create(
                ToolCall(
                    turn=turn,
                    message=message,
                    position=position,
                    call_id=call.call_id,
                    name=call.name,
                    input=call.input,
                    status=call.status,
                    result=call.result,
                    started_at=clock(),
                    finished_at=clock(),
                )
                for position, call in enumerate(entry.calls)
            )
            if entry.kind == Message.Kind.SUMMARY:
                Conversation.objects.filter(pk=conversation_id).update(head=place)


def count_turn(conversation_id: int) -> Turn:
    """A turn that was run elsewhere, recorded as done."""
    return Turn.objects.create(
        conversation_id=conversation_id,
        status=Turn.Status.DONE,
        reason="imported",
        not_before=clock(),
        started_at=clock(),
        finished_at=clock(),
    )
