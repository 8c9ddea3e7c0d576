"""What has happened to an item, in order, in words."""

import datetime
from typing import Any, NamedTuple

from inbox.admin import reader
from inbox.admin.reader import Link
from inbox.models import Item, Notification, ResolveLink

WAYS = {
    Item.Via.ADMIN: "in the admin",
    Item.Via.API: "through the API",
    Item.Via.LINK: "by a signed link",
    Item.Via.WEBHOOK: "by a webhook",
    Item.Via.CRON: "by a resolver that looked for it",
    Item.Via.MESH: "by another agent",
    Item.Via.DEADLINE: "by the deadline",
    Item.Via.SYSTEM: "by the system",
}
CLOSED = {
    Item.Outcome.ANSWERED: "Answered",
    Item.Outcome.CANCELLED: "Cancelled",
    Item.Outcome.UNDELIVERABLE: "Undeliverable",
    Item.Outcome.WITHDRAWN: "Withdrawn",
}


class Event(NamedTuple):
    """One line of a timeline; `trouble` is an error to show."""

    at: datetime.datetime
    text: str
    link: Link | None = None
    trouble: str = ""


def closed_by(item: Item) -> str:
    """How an item was closed, by whom and by which way: `Answered by ada in the admin`."""
    if item.outcome == Item.Outcome.EXPIRED:
        return "Expired: nobody answered in time"
    if item.outcome == Item.Outcome.WITHDRAWN:
        return f"Withdrawn by {item.resolved_by}"
    word = CLOSED[Item.Outcome(item.outcome)] if item.asked else "Sent, without having been asked,"
    way = WAYS[Item.Via(item.resolved_via)]
    return f"{word} by {item.resolved_by} {way}" if item.resolved_via != Item.Via.SYSTEM else f"{word} {way}"


def timeline(user: Any, item: Item) -> list[Event]:
    """Posted, notified, linked, answered, read: oldest first."""
    events = [*_notices(item), *_links(item)]
    if item.asked:
        posted = f"Posted by the agent {item.mailbox.agent}"
        events.append(Event(item.created_at, posted, _run(user, item.posted_in)))
    if item.resolved_at:
        events.append(Event(item.resolved_at, closed_by(item)))
    if item.consumed_at and item.outcome != Item.Outcome.WITHDRAWN:
        events.append(Event(item.consumed_at, "Read by the agent", _run(user, item.consumed_in)))
    return sorted(events, key=lambda event: event.at)


def _run(user: Any, run_id: int | None) -> Link | None:
    return None if run_id is None else reader.current().run(user, run_id)


def _notices(item: Item) -> list[Event]:
    words = {
        Notification.Status.QUEUED: "Notice is about to be sent",
        Notification.Status.SENDING: "Notice is being sent",
        Notification.Status.SENT: "Notice sent",
        Notification.Status.FAILED: "Notice could not be sent",
    }
    return [
        Event(
            row.sent_at or row.created_at,
            f"{words[Notification.Status(row.status)]} ({row.notifier})"
            + (f" to {row.recipients}" if row.recipients else ""),
            trouble=row.error,
        )
        for row in Notification.objects.filter(item=item)
    ]


def _links(item: Item) -> list[Event]:
    events = []
    for link in ResolveLink.objects.filter(item=item).select_related("maker"):
        until = f"good until {link.expires_at:%Y-%m-%d %H:%M} UTC"
        events.append(Event(link.created_at, f"{link.maker.get_username()} made a link to answer it, {until}"))
        if link.revoked_at:
            events.append(Event(link.revoked_at, f"The link of {link.maker.get_username()} was revoked"))
    return events
