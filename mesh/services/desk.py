"""What staff do about messages: send a dead delivery again, close it, take note of a stopped chain. The right, the move and the log
entry are one transaction."""

from typing import Any

from django.contrib.admin.models import CHANGE
from django.db import transaction

from inbox.clock import clock
from inbox.errors import NotAllowed
from inbox.services.issuing import log
from mesh.errors import ChainNotFound, DeliveryNotFound, NotDead
from mesh.models import Delivery, StoppedChain
from mesh.services.delivering import deliver_or_bury


def send_again(user: Any, delivery_id: int) -> Delivery:
    """dead -> queued -> delivered, or dead again. Raises DeliveryNotFound, NotDead, NotAllowed."""
    require(user)
    with transaction.atomic():
        dead = Delivery.objects.filter(pk=delivery_id, status=Delivery.Status.DEAD)
        if not dead.update(status=Delivery.Status.QUEUED, reason="", closed_at=None):
            raise _not_dead(delivery_id)
        deliver_or_bury(delivery_id)
        row = Delivery.objects.get(pk=delivery_id)
        log(user, row, CHANGE, "Sent again." if row.status == row.Status.DELIVERED else f"Sent again; {row.reason}.")
    return row


def close(user: Any, delivery_id: int) -> Delivery:
    """Take a dead delivery off the list of what needs attention. Raises DeliveryNotFound, NotDead, NotAllowed."""
    require(user)
    with transaction.atomic():
        dead = Delivery.objects.filter(pk=delivery_id, status=Delivery.Status.DEAD, closed_at=None)
        if not dead.update(closed_at=clock()):
            raise _not_dead(delivery_id)
        row = Delivery.objects.get(pk=delivery_id)
        log(user, row, CHANGE, "Closed.")
    return row


def see(user: Any, chain_id: int) -> StoppedChain:
    """Take note of a stopped chain, so that it needs attention no more; whoever is first stands on it. Raises ChainNotFound,
    NotAllowed."""
    require(user)
    with transaction.atomic():
        first = StoppedChain.objects.filter(pk=chain_id, seen_by=None).update(seen_by=user)
        row = StoppedChain.objects.select_related("seen_by").filter(pk=chain_id).first()
        if row is None:
            raise ChainNotFound
        if first:
            log(user, row, CHANGE, "Seen.")
    return row


def require(user: Any) -> None:
    """Raises NotAllowed."""
    if not user.has_perm("mesh.manage_mesh"):
        raise NotAllowed("You need the permission mesh.manage_mesh for this.")


def _not_dead(delivery_id: int) -> Exception:
    return NotDead() if Delivery.objects.filter(pk=delivery_id).exists() else DeliveryNotFound()
