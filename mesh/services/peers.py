"""Who is on the mesh: joining by declaration, retiring, coming back; and whom a peer may see."""

import difflib
from collections.abc import Iterable
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from agents import registry
from inbox.clock import clock
from inbox.errors import NotAllowed
from inbox.models import Mailbox
from inbox.services.mailboxes import open_mailbox
from inbox.text import check, marked
from mesh.declare import DeclaredPeer, declared
from mesh.errors import BadPeer, NotAPeer, UnknownPeer
from mesh.models import Capability, Delivery, Peer, Subscription
from mesh.services import hot, locks, waits

NAME_LENGTH = 100


def sync() -> None:
    """Make what the declarations say: fixed addresses, and peers for the mailboxes of agents that joined the mesh since."""
    for one in declared.values():
        _ensure(one)
    on_mesh = [name for name, agent in registry.agents.items() if agent.mesh]
    for mailbox in Mailbox.objects.filter(agent__in=on_mesh, peer=None):
        join(mailbox)


def join(mailbox: Mailbox, *, public: bool = False) -> Peer:
    """The mailbox's peer, made if there is none, with what its agent says of itself."""
    agent = registry.agents.get(mailbox.agent)
    with transaction.atomic():
        peer, created = Peer.objects.get_or_create(mailbox=mailbox, defaults={"public": public})
        if created and agent is not None:
            describe(peer, description=agent.description, capabilities=agent.capabilities)
    return peer


def describe(
    peer: Peer, *, description: str, capabilities: Iterable[str], metadata: dict[str, Any] | None = None
) -> None:
    """Write what others see of it."""
    names = {_name(name) for name in capabilities}
    with transaction.atomic():
        Peer.objects.filter(pk=peer.pk).update(description=description, metadata=metadata or {})
        Capability.objects.filter(peer=peer).exclude(name__in=names).delete()
        Capability.objects.bulk_create(
            [Capability(peer=peer, name=name) for name in sorted(names)], ignore_conflicts=True
        )


def register_outside(
    user: Any,
    address: str,
    *,
    owner: Any = None,
    description: str = "",
    capabilities: Iterable[str] = (),
    public: bool = False,
) -> Peer:
    """An outside peer: a mailbox that no agent of ours reads, for a key of its own."""
    _require(user)
    with transaction.atomic():
        peer = join(open_mailbox(address, agent="", owner=owner), public=public)
        describe(peer, description=description, capabilities=capabilities)
        _log(user, peer.pk, "Registered.")
    return _get(peer.pk)


def peer_of(mailbox_id: int) -> Peer:
    """The living peer of this mailbox. Raises NotAPeer."""
    peer = Peer.objects.select_related("mailbox").filter(mailbox_id=mailbox_id, retired_at=None).first()
    if peer is None:
        raise NotAPeer
    return peer


def visible_to(peer: Peer) -> QuerySet[Peer]:
    """Whom this peer sees and may write to: peers of the same owner, public ones without an owner, and whoever wrote to it."""
    wrote = Delivery.objects.filter(recipient=peer, sender=OuterRef("pk"))
    seen = Q(mailbox__owner=None, public=True) | Q(Exists(wrote))
    if peer.mailbox.owner_id is not None:
        seen |= Q(mailbox__owner=peer.mailbox.owner_id)
    return Peer.objects.filter(seen, retired_at=None).exclude(pk=peer.pk).select_related("mailbox")


def find_recipient(peer: Peer, name: str) -> Peer:
    """The peer of this address, if this one may write to it. Raises UnknownPeer, which names near misses among those it may."""
    address = name.strip()
    found = hot.find_by_address(address, peer.pk)
    if found is None and address.lower() in declared:  # declared since the last migrate
        _ensure(declared[address.lower()])
        found = hot.find_by_address(address, peer.pk)
    if found is None or not _may_write(peer, found):
        raise _unknown(peer, name)
    return found.peer


def _may_write(peer: Peer, found: hot.Found) -> bool:
    """The same as visible_to, for one."""
    other = found.peer
    if other.pk == peer.pk or other.retired_at is not None:
        return False
    owner = other.mailbox.owner_id
    return found.wrote or (other.public if owner is None else owner == peer.mailbox.owner_id)


def _unknown(peer: Peer, name: str) -> UnknownPeer:
    seen = visible_to(peer).values_list("mailbox__address", flat=True)[:500]
    near = difflib.get_close_matches(name, list(seen), n=3, cutoff=0.6)
    hint = (
        f" Did you mean {' or '.join(near)}?" if near else " glove_mesh_list_agents shows those that you may write to."
    )
    return UnknownPeer(f"There is no peer {marked(name[:200]).text!r} that you may write to.{hint}")


def retire(user: Any, peer_id: int) -> Peer:
    """Take a peer off the mesh: nobody can write to it, and whoever waits for it is told. Its mailbox and mail stay."""
    _require(user)
    with transaction.atomic():
        locks.alone()  # a send that is under way commits first, and its wait is found
        if Peer.objects.filter(pk=peer_id, retired_at=None).update(retired_at=clock()):
            _log(user, peer_id, "Retired.")
            waits.recipient_is_gone(peer_id)
    return _get(peer_id)


def bring_back(user: Any, peer_id: int) -> Peer:
    """Undo a retirement. Waits that it ended stay ended."""
    _require(user)
    with transaction.atomic():
        if Peer.objects.filter(pk=peer_id).exclude(retired_at=None).update(retired_at=None):
            _log(user, peer_id, "Brought back.")
    return _get(peer_id)


def subscribe(user: Any, peer_id: int, topic: str) -> Subscription:
    """Have the peer get this topic's broadcasts; again changes nothing."""
    _require(user)
    row, created = Subscription.objects.get_or_create(peer=_get(peer_id), topic=_name(topic))
    if created:
        _log(user, peer_id, f"Subscribed to {topic}.")
    return row


def unsubscribe(user: Any, peer_id: int, topic: str) -> None:
    """Undo it, also where it was declared."""
    _require(user)
    if Subscription.objects.filter(peer_id=peer_id, topic=topic).delete()[0]:
        _log(user, peer_id, f"Unsubscribed from {topic}.")


def _ensure(one: DeclaredPeer) -> None:
    agent = registry.agents.get(one.agent)
    if one.agent and agent is None:
        raise BadPeer(f"The peer {one.address} names the agent {one.agent!r}, which is not declared.")
    with transaction.atomic():
        known = Peer.objects.filter(mailbox__address=one.address).exists()
        peer = join(open_mailbox(one.address, agent=one.agent))
        describe(
            peer,
            description=one.description or (agent.description if agent else ""),
            capabilities=one.capabilities or (agent.capabilities if agent else ()),
            metadata=one.metadata,
        )
        if not known:  # who may see it, and its topics, are declared once; what staff change later stays
            Peer.objects.filter(pk=peer.pk).update(public=one.public)
            Subscription.objects.bulk_create(
                [
                    Subscription(peer=peer, topic=_name(topic), source=Subscription.Source.DECLARED)
                    for topic in one.topics
                ],
                ignore_conflicts=True,
            )


def _name(name: str) -> str:
    return check(name, what="name", limit=NAME_LENGTH)


def _get(peer_id: int) -> Peer:
    peer = Peer.objects.select_related("mailbox").filter(pk=peer_id).first()
    if peer is None:
        raise UnknownPeer("There is no such peer.")
    return peer


def _require(user: Any) -> None:
    if not user.has_perm("mesh.manage_mesh"):
        raise NotAllowed("You need the permission mesh.manage_mesh for this.")


def _log(user: Any, peer_id: int, message: str) -> None:
    LogEntry.objects.create(
        user_id=user.pk,
        content_type=ContentType.objects.get_for_model(Peer),
        object_id=str(peer_id),
        object_repr=str(_get(peer_id))[:200],
        action_flag=CHANGE,
        change_message=message,
    )
