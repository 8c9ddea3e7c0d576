"""From an answered item to a queued turn. A wake that is lost is the sweep's to find; a doubled one is nothing."""

import logging
from typing import Any

from django.db import OperationalError, connection, transaction

from agents import registry
from agents.models import Conversation
from agents.services import hot
from agents.services.endings import start_next
from inbox.models import Item, Mailbox
from inbox.services import items, reading

log = logging.getLogger(__name__)
AT_ONCE = 500


def wake(mailbox_id: int) -> int:
    """Wake whoever reads the mailbox's answered, unrung items; returns how many items were rung.

    Items of one reader are one wake, however many they are. An item goes to the open conversation that posted it, else to the
    mailbox's latest open one, else to a new one of the mailbox's agent."""
    rung = 0
    for _ in range(3):  # a conversation may close while we look: route again
        found = reading.unrung(mailbox_id, AT_ONCE)
        readers: dict[int | None, list[int]] = {}
        for pk, origin, agent in found:
            if not agent:  # an outside peer's, who looks for itself: nobody here is to be woken, now or later
                return rung + reading.mark_rung([item for item, *_ in found], 0)
            if agent not in registry.agents:  # the wake is not used up: the sweep makes it when the agent is back
                log.error("Mail in mailbox %s is kept: its agent %r is not declared.", mailbox_id, agent)
                return rung
            readers.setdefault(origin, []).append(pk)
        reached = 0
        for origin, ids in readers.items():
            reader = origin or _latest_open(mailbox_id) or _open_one(mailbox_id)
            reached += _ring_reader(reader, mailbox_id, ids)
        rung += reached
        if reached == len(found) < AT_ONCE:
            break
    return rung


def wake_unrung(limit: int = 100) -> int:
    """The wakes that were lost: called by the sweep. Mail of agents that are not declared is kept for when they are."""
    readable = ["", *registry.agents]
    waiting = Item.objects.filter(status=Item.Status.RESOLVED, rung=False, mailbox__agent__in=readable)
    mailboxes = dict.fromkeys(waiting.order_by("pk").values_list("mailbox_id", flat=True)[:limit])
    return sum(_wake_guarded(mailbox_id) for mailbox_id in mailboxes)


def _wake_guarded(mailbox_id: int) -> int:
    """One mailbox whose conversation is locked for long does not hold up the others."""
    try:
        return wake(mailbox_id)
    except OperationalError:
        if not connection.is_usable():
            raise
        log.warning("Mailbox %s was not woken; the next sweep tries again", mailbox_id, exc_info=True)
        return 0


def on_mailbox_ready(sender: Any, mailbox_id: int, **kwargs: Any) -> None:
    """Receiver of inbox.signals.mailbox_ready."""
    wake(mailbox_id)


class _NothingToRing(Exception):
    """Others have rung these items, or their reader is closed."""


def _ring_reader(reader: int, mailbox_id: int, ids: list[int]) -> int:
    """Lock the conversation, queue a turn unless one is open (that one will hear), flag the items: in lock order."""
    try:
        with transaction.atomic():
            if not hot.raise_rung(reader):
                # Closed meanwhile, or before this mail was dropped for it: the mailbox's next reader has it.
                items.release(reader, mailbox_id)
                return 0
            start_next(reader)
            rung = reading.mark_rung(ids, reader)
            if not rung:
                raise _NothingToRing
    except _NothingToRing:
        return 0
    return rung


def _latest_open(mailbox_id: int) -> int | None:
    opened = Conversation.objects.filter(mailbox_id=mailbox_id, status=Conversation.Status.OPEN)
    return opened.order_by("-pk").values_list("pk", flat=True).first()


def _open_one(mailbox_id: int) -> int:
    """A conversation for mail that nobody waits for. The mailbox is locked first, so that two letters open one."""
    with transaction.atomic():
        mailbox = Mailbox.objects.select_for_update(no_key=True).get(pk=mailbox_id)
        if reader := _latest_open(mailbox_id):
            return reader
        return Conversation.objects.create(
            mailbox=mailbox, agent=mailbox.agent, owner_id=mailbox.owner_id, title="Mail"
        ).pk
