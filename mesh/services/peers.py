"""Who is on the mesh, and whom a peer may see and write to."""

import difflib
import re
from collections.abc import Iterable

from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from inbox.tags import ADDRESS
from inbox.text import marked
from mesh.declare import declared
from mesh.errors import NotAPeer, UnknownPeer
from mesh.models import Delivery, Peer
from mesh.services import hot, joining

ADDRESS_LENGTH = 200
NEAR_AMONG = 2000  # addresses that are looked at for near misses
WHO_IS_THERE = " glove_mesh_list_agents, or GET /api/v1/mesh/peers over HTTP, shows those that you may write to."

# One look-up for each way of being seen. Who wrote is found by jumping from sender to sender, however much each of them wrote.
SEEN = """
SELECT p.id FROM mesh_peer p JOIN inbox_mailbox m ON m.id = p.mailbox_id WHERE p.public AND m.owner_id IS NULL
UNION
SELECT p.id FROM inbox_mailbox m JOIN mesh_peer p ON p.mailbox_id = m.id WHERE m.owner_id = %s
UNION
SELECT id FROM (
    WITH RECURSIVE writer(id) AS (
        SELECT MIN(d.sender_id) FROM mesh_delivery d WHERE d.recipient_id = %s AND d.status = 'delivered'
        UNION ALL
        SELECT (
            SELECT MIN(d.sender_id) FROM mesh_delivery d
            WHERE d.recipient_id = %s AND d.status = 'delivered' AND d.sender_id > writer.id
        ) FROM writer WHERE writer.id IS NOT NULL
    )
    SELECT id FROM writer WHERE id IS NOT NULL
) wrote
"""


def peer_of(mailbox_id: int) -> Peer:
    """The living peer of this mailbox. Raises NotAPeer."""
    peer = Peer.objects.select_related("mailbox").filter(mailbox_id=mailbox_id, retired_at=None).first()
    if peer is None:
        raise NotAPeer
    return peer


def visible_to(peer: Peer) -> QuerySet[Peer]:
    """Whom this peer sees and may write to: peers of the same owner, public ones without an owner, and whoever wrote to it."""
    seen = RawSQL(SEEN, [peer.mailbox.owner_id, peer.pk, peer.pk])  # noqa: S611 (our own text)
    return Peer.objects.filter(pk__in=seen, retired_at=None).exclude(pk=peer.pk).select_related("mailbox")


def recipient(sender: Peer, look: hot.Look, name: str) -> hot.Other:
    """The peer of this address, if the sender may write to it. Raises UnknownPeer, which names near misses among those it may."""
    address = small(name)
    found = look.others.get(address)
    if found is None and address in declared and joining.ensure_quietly(declared[address]):  # since the last migrate
        found = hot.begin(sender, [address]).others.get(address)
    if found is None or not _may_write(sender, found):
        raise unknown(sender, name)
    return found


def small(name: str) -> str:
    """The address in the form in which it is looked for; nothing where it cannot be one. Only ASCII has small letters here: the
    sign of Kelvin is no k."""
    name = name.strip()
    return name.lower() if re.fullmatch(ADDRESS, name, re.ASCII) else ""


def in_small_letters(names: Iterable[str]) -> list[str]:
    """Distinct, and without those that cannot be addresses."""
    return [address for address in dict.fromkeys(map(small, names)) if address]


def unknown(peer: Peer, name: str) -> UnknownPeer:
    """There is none of this name, or it is not this one's to see: the same words for both."""
    seen = visible_to(peer).order_by("pk").values_list("mailbox__address", flat=True)[:NEAR_AMONG]
    near = difflib.get_close_matches(name[:ADDRESS_LENGTH], list(seen), n=3, cutoff=0.6)
    hint = f" Did you mean {' or '.join(near)}?" if near else WHO_IS_THERE
    return UnknownPeer(f"There is no peer {marked(name[:ADDRESS_LENGTH]).text!r} that you may write to.{hint}")


def _may_write(peer: Peer, other: hot.Other) -> bool:
    """The same as visible_to, for one."""
    if other.retired_at is not None:
        return False
    owner = other.owner_id
    if owner == peer.mailbox.owner_id if owner is not None else other.public:
        return True
    return Delivery.objects.filter(recipient=peer, sender=other.pk, status=Delivery.Status.DELIVERED).exists()
