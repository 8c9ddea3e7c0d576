"""A conversation's history for people: what was received in its order, then what waits to be received."""

from collections.abc import Sequence

from django.db.models import Prefetch, Q

from agents.models import Message, ToolCall

QUEUEABLE = Q(sender=Message.Sender.USER, kind=Message.Kind.MESSAGE)


def messages_after(conversation_id: int, place: int, queued: int, count: int) -> list[Message]:
    """At most `count` messages after a place in the history, each once, with their tool calls, in at most three queries.

    `queued` is the id of the last message that was shown while it waited. It may have a place by now, and is not shown again.
    """
    rows = Message.objects.filter(conversation_id=conversation_id).prefetch_related(
        Prefetch("calls", ToolCall.objects.order_by("message_id", "position"))
    )
    received = rows.filter(place__gt=place)
    if queued:
        received = received.exclude(QUEUEABLE & Q(pk__lte=queued))
    found = list(received.order_by("place")[:count])
    if len(found) < count:
        found += rows.filter(place=None, pk__gt=queued).order_by("pk")[: count - len(found)]
    return found


def reached(page: Sequence[Message], place: int, queued: int) -> tuple[int, int]:
    """Where the next page begins, after one that began at `place` and `queued`."""
    places = [message.place for message in page if message.place is not None]
    waiting = [message.pk for message in page if message.place is None]
    return (places or [place])[-1], (waiting or [queued])[-1]
