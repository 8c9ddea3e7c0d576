"""Opening, talking, closing; cancelling and retrying a turn."""

from typing import Any

from django.db import transaction

from agents import registry
from agents.errors import ConversationClosed, ConversationNotFound, MailboxNotFound, NothingToCancel, NothingToRetry
from agents.models import Conversation, Message, Turn
from agents.services import hot
from agents.services.endings import OPEN, end_turn, start_next
from agents.services.waking import wake
from inbox import tags, text
from inbox.clock import clock
from inbox.errors import AddressTaken, BadAddress
from inbox.models import Mailbox
from inbox.services import items
from inbox.services.mailboxes import find_mailbox, open_mailbox

TITLE_LENGTH = 200


def open_for(
    user: Any, agent: str, *, mailbox: str | None = None, title: str = "", free_addresses: bool = False
) -> Conversation:
    """Open a conversation as this user, on `<agent>/<username>`, or on an address below it.

    With `free_addresses` any address may be named, one without an owner is made, or one's own or an ownerless one is used.
    Raises UnknownAgent, BadAddress, MailboxNotFound (also where it is another's)."""
    registry.get_agent(agent)
    home = home_address(user, agent)
    address = tags.check_address(home if mailbox is None else mailbox)
    below = address.lower() == home.lower() or address.lower().startswith(home.lower() + "/")
    try:
        if below:
            opened = open_mailbox(address, agent=agent, owner=user)
        else:
            opened = _free_mailbox(address, agent, user, free_addresses)
    except AddressTaken:
        raise MailboxNotFound from None
    return open_conversation(opened.pk, title, opener=user)


def home_address(user: Any, agent: str) -> str:
    """`<agent>/<username>`; for a name that is no address, or that another's takes when case is dropped, `<agent>/user-<id>`."""
    address = f"{agent}/{user.get_username()}"
    try:
        taken = find_mailbox(tags.check_address(address))
    except BadAddress:
        taken = None
    else:
        if taken is None or taken.owner_id == user.pk:
            return address
    return f"{agent}/user-{user.pk}"


def open_conversation(mailbox_id: int, title: str = "", *, opener: Any = None) -> Conversation:
    """A new conversation of the mailbox's agent, for its owner, or where it has none for whoever opens it. Mail that waits
    unread in the mailbox comes with its first turn."""
    if title:
        text.check(title, what="title", limit=TITLE_LENGTH)
    with transaction.atomic():
        mailbox = Mailbox.objects.select_for_update(no_key=True).filter(pk=mailbox_id).first()
        if mailbox is None:
            raise MailboxNotFound
        registry.get_agent(mailbox.agent)
        owner = mailbox.owner_id or (opener.pk if opener else None)
        return Conversation.objects.create(mailbox=mailbox, agent=mailbox.agent, owner_id=owner, title=title)


def say(conversation_id: int, words: str, *, author: Any = None) -> Message:
    """Queue a user message and wake the agent, in one transaction. Raises ConversationClosed, and the errors of text.check."""
    text.check(words)
    with transaction.atomic():
        _raise_rung(conversation_id)
        # Inserted after its conversation is locked, or a lower id could become visible later.
        message = Message.objects.create(
            conversation_id=conversation_id, sender=Message.Sender.USER, text=words, author=author
        )
        start_next(conversation_id)
    return message


def nudge(conversation_id: int) -> None:
    """Queue a turn without a word: it answers what waits, if anything does. Raises ConversationClosed."""
    with transaction.atomic():
        _raise_rung(conversation_id)
        start_next(conversation_id)


def close(conversation_id: int) -> Conversation:
    """Close it: its open turn is cancelled; its mail, open or unread, is the mailbox's next reader's. Again changes nothing."""
    with transaction.atomic():
        # The mailbox first, as posting does: whatever this conversation asked for stands before it is closed, or has no asker.
        list(Mailbox.objects.select_for_update(no_key=True, of=("self",)).filter(conversations=conversation_id))
        conversation = _lock(conversation_id)
        closed = Conversation.objects.filter(pk=conversation_id, status=Conversation.Status.OPEN).update(
            status=Conversation.Status.CLOSED, closed_at=clock()
        )
        if closed:
            for turn_id in Turn.objects.filter(conversation_id=conversation_id, status__in=OPEN).values_list(
                "pk", flat=True
            ):
                end_turn(conversation_id, turn_id, Turn.Status.CANCELLED, "closed")
            if items.release(conversation_id, conversation.mailbox_id):
                transaction.on_commit(lambda: wake(conversation.mailbox_id), robust=True)
        conversation.refresh_from_db()
    return conversation


def cancel(conversation_id: int) -> Turn:
    """Stop the open turn at its next boundary; its open calls are aborted. Raises NothingToCancel."""
    with transaction.atomic():
        _lock(conversation_id)
        turn = Turn.objects.filter(conversation_id=conversation_id, status__in=OPEN).first()
        if turn is None or not end_turn(conversation_id, turn.pk, Turn.Status.CANCELLED, "cancelled"):
            raise NothingToCancel
        turn.refresh_from_db()
    return turn


def retry(conversation_id: int) -> Turn:
    """Queue a new turn after a failed one: it answers what no model has answered. Raises NothingToRetry, ConversationClosed."""
    with transaction.atomic():
        _raise_rung(conversation_id)
        last = Turn.objects.filter(conversation_id=conversation_id).order_by("-pk").first()
        if last is None or last.status not in (Turn.Status.FAILED, Turn.Status.CANCELLED):
            raise NothingToRetry
        start_next(conversation_id)
        return Turn.objects.filter(conversation_id=conversation_id).latest("pk")


def _free_mailbox(address: str, agent: str, user: Any, allowed: bool) -> Mailbox:
    found = find_mailbox(address)
    if found and found.agent == agent and (found.owner_id == user.pk or (allowed and found.owner_id is None)):
        return found
    if found or not allowed:
        raise MailboxNotFound
    return open_mailbox(address, agent=agent, owner=None)


def _raise_rung(conversation_id: int) -> None:
    """Lock the open conversation by counting the message: whatever turn runs will hear it, or be followed by one that does."""
    if not hot.raise_rung(conversation_id):
        if Conversation.objects.filter(pk=conversation_id).exists():
            raise ConversationClosed
        raise ConversationNotFound


def _lock(conversation_id: int) -> Conversation:
    rows = Conversation.objects.select_for_update(no_key=True, of=("self",)).select_related("mailbox")
    conversation = rows.filter(pk=conversation_id).first()
    if conversation is None:
        raise ConversationNotFound
    return conversation
