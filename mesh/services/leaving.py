"""Leaving the mesh and coming back, and the topics that a peer gets: acts of staff, each with its right and its log entry."""

from typing import Any

from django.contrib.admin.models import CHANGE
from django.db import OperationalError, transaction

from inbox.clock import clock
from inbox.services.issuing import log
from inbox.text import check
from mesh.declare import NAME_LENGTH
from mesh.errors import Busy, UnknownPeer
from mesh.models import Peer, Subscription
from mesh.services import locks, waits
from mesh.services.desk import require


def retire(user: Any, peer_id: int) -> Peer:
    """Take a peer off the mesh: nobody can write to it, and whoever waits for it is told, as it is itself where it waits. Its
    mailbox and mail stay. Raises UnknownPeer, NotAllowed."""
    require(user)
    with transaction.atomic():
        _alone()  # a send that is under way commits first, and its wait is found
        moved = Peer.objects.filter(pk=peer_id, retired_at=None).update(retired_at=clock())
        peer = _get(peer_id)
        if moved:
            log(user, peer, CHANGE, "Retired.")
            waits.recipient_is_gone(peer)
    return peer


def bring_back(user: Any, peer_id: int) -> Peer:
    """Undo a retirement. Waits that it ended stay ended. Raises UnknownPeer, NotAllowed."""
    require(user)
    with transaction.atomic():
        moved = Peer.objects.filter(pk=peer_id).exclude(retired_at=None).update(retired_at=None)
        peer = _get(peer_id)
        if moved:
            log(user, peer, CHANGE, "Brought back.")
    return peer


def subscribe(user: Any, peer_id: int, topic: str) -> Subscription:
    """Have the peer get this topic's broadcasts; again changes nothing. Raises UnknownPeer, NotAllowed, and text.check's errors."""
    require(user)
    check(topic, what="topic", limit=NAME_LENGTH)
    with transaction.atomic():
        peer = _get(peer_id)
        row, created = Subscription.objects.get_or_create(peer=peer, topic=topic)
        if created:
            log(user, peer, CHANGE, f"Subscribed to {topic}.")
    return row


def unsubscribe(user: Any, peer_id: int, topic: str) -> None:
    """Undo it, also where it was declared. Raises UnknownPeer, NotAllowed, and text.check's errors."""
    require(user)
    check(topic, what="topic", limit=NAME_LENGTH)
    with transaction.atomic():
        peer = _get(peer_id)
        if Subscription.objects.filter(peer=peer, topic=topic).delete()[0]:
            log(user, peer, CHANGE, f"Unsubscribed from {topic}.")


def _alone() -> None:
    try:
        locks.alone()
    except OperationalError as error:  # the wait for a lock has an end
        raise Busy from error


def _get(peer_id: int) -> Peer:
    peer = Peer.objects.select_related("mailbox").filter(pk=peer_id).first()
    if peer is None:
        raise UnknownPeer("There is no such peer.")
    return peer
