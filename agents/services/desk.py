"""What a person does to a turn in the admin: the right, the service and the log entry, in one transaction."""

from typing import Any

from django.contrib.admin.models import CHANGE
from django.db import transaction

from agents import access
from agents.errors import ConversationNotFound
from agents.models import Conversation, Turn
from agents.services import conversations
from inbox.errors import NotAllowed
from inbox.services.issuing import log


def retry_as(user: Any, conversation_id: int) -> Turn:
    """Try a failed turn again. Raises ConversationNotFound, NotAllowed, NothingToRetry, ConversationClosed."""
    conversation = _require(user, conversation_id)
    with transaction.atomic():
        turn = conversations.retry(conversation.pk)
        log(user, conversation, CHANGE, f"Tried again as turn {turn.pk}.")
    return turn


def cancel_as(user: Any, conversation_id: int) -> Turn:
    """Stop the open turn. Raises ConversationNotFound, NotAllowed, NothingToCancel."""
    conversation = _require(user, conversation_id)
    with transaction.atomic():
        turn = conversations.cancel(conversation.pk)
        log(user, conversation, CHANGE, f"Cancelled turn {turn.pk}.")
    return turn


def close_as(user: Any, conversation_id: int) -> Conversation:
    """Close the conversation; its mail goes to the mailbox's next reader. Raises ConversationNotFound, NotAllowed."""
    conversation = _require(user, conversation_id)
    with transaction.atomic():
        closed = conversations.close(conversation.pk)
        log(user, conversation, CHANGE, "Closed.")
    return closed


def _require(user: Any, conversation_id: int) -> Conversation:
    conversation = access.visible_conversations(user).select_related("mailbox").filter(pk=conversation_id).first()
    if conversation is None:
        raise ConversationNotFound
    if not access.may_write(user, conversation):
        raise NotAllowed("You may read this conversation, not act in it.")
    return conversation
