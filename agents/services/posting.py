"""Posting to the inbox from a conversation."""

from django.db import transaction

from agents.models import Conversation
from inbox.models import Item, Mailbox
from inbox.services import items


def post(
    conversation_id: int,
    mailbox_id: int,
    *,
    tag: str,
    request: str,
    blocking: bool = False,
    due_in_s: float | None = None,
    turn: int | None = None,
) -> Item:
    """A request of this conversation; see inbox.services.items.post. A tool may outlive its conversation: where that is closed,
    the answer is for the mailbox's next reader."""
    with transaction.atomic():
        # The mailbox first, as closing does: one of the two comes after the other.
        list(Mailbox.objects.select_for_update(no_key=True).filter(pk=mailbox_id))
        return items.post(
            mailbox_id,
            tag=tag,
            request=request,
            blocking=blocking,
            due_in_s=due_in_s,
            origin=origin(conversation_id),
            posted_in=turn,
        )


def origin(conversation_id: int | None) -> int | None:
    """Whose reader a new item is for: this conversation's, or where it is closed its mailbox's next. The caller has locked the
    mailbox or the conversation, as closing does both: it stays so until the item is there."""
    if conversation_id is None:
        return None
    still = Conversation.objects.filter(pk=conversation_id, status=Conversation.Status.OPEN)
    return conversation_id if still.exists() else None
