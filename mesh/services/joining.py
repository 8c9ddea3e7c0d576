"""Joining the mesh: by declaration, as an agent's mailbox is opened, or registered by staff for a program outside."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib.admin.models import ADDITION
from django.db import transaction
from django.db.models.functions import Lower

from agents import registry
from agents.declare import Agent
from inbox.errors import InboxError
from inbox.models import Mailbox
from inbox.services.issuing import log
from inbox.services.mailboxes import open_mailbox
from inbox.text import check
from mesh.declare import NAME_LENGTH, DeclaredPeer, declared
from mesh.errors import BadPeer
from mesh.models import Capability, Peer, Subscription
from mesh.services.desk import require

logger = logging.getLogger(__name__)
MAX_NAMED = 20


def sync() -> None:
    """Make what the declarations say: fixed addresses, peers for the mailboxes of agents that joined the mesh since, and what
    agents say of themselves now. An address that cannot be had is an error in the log, and the others are made."""
    for one in declared.values():
        ensure_quietly(one)
    for name, agent in registry.agents.items():
        if agent.mesh:
            for mailbox in Mailbox.objects.filter(agent=name, peer=None):
                join(mailbox)
            _describe_again(agent)
    _tell_who_stayed()


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
    names = {check(name, what="capability", limit=NAME_LENGTH) for name in capabilities}
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
    description: str = "",
    capabilities: Iterable[str] = (),
    public: bool = False,
) -> Peer:
    """An outside peer: a mailbox that no agent of ours reads, for a key of its own. Raises NotAllowed, BadAddress, AddressTaken,
    and BadPeer where it is on the mesh already."""
    require(user)
    if description:
        check(description, what="description")
    with transaction.atomic():
        mailbox = open_mailbox(address, agent="")
        if Peer.objects.filter(mailbox=mailbox).exists():
            raise BadPeer(f"{mailbox.address} is on the mesh already.")
        peer = join(mailbox, public=public)
        describe(peer, description=description, capabilities=capabilities)
        log(user, peer, ADDITION, "Registered.")
    return Peer.objects.select_related("mailbox").get(pk=peer.pk)


def ensure_quietly(one: DeclaredPeer) -> bool:
    """Make a declared address what its declaration says; false, with an error in the log, where it cannot be had."""
    try:
        _ensure(one)
    except InboxError as error:
        logger.error("The peer %s, which is declared, cannot be made: %s", one.address, error)
        return False
    return True


def capabilities_of(one: DeclaredPeer) -> Sequence[str]:
    """Its own, else its agent's."""
    agent = registry.agents.get(one.agent)
    return one.capabilities or (agent.capabilities if agent else ())


def _ensure(one: DeclaredPeer) -> None:
    agent = registry.agents.get(one.agent)
    if one.agent and agent is None:
        raise BadPeer(f"It names the agent {one.agent!r}, which is not declared.")
    with transaction.atomic():
        peer = join(open_mailbox(one.address, agent=one.agent))
        describe(
            peer,
            description=one.description or (agent.description if agent else ""),
            capabilities=capabilities_of(one),
            metadata=one.metadata,
        )
        # Who may see it, and its topics, are declared once; what staff change later stays.
        if Peer.objects.filter(pk=peer.pk, declared=False).update(declared=True, public=one.public):
            Subscription.objects.bulk_create(
                [Subscription(peer=peer, topic=topic, source=Subscription.Source.DECLARED) for topic in one.topics],
                ignore_conflicts=True,
            )


def _tell_who_stayed() -> None:
    """Rows are not taken away because a declaration is: mail may be on its way. But whoever is left without the tools can only get
    letters, so somebody is to know."""
    on_mesh = [name for name, agent in registry.agents.items() if agent.mesh]
    left = Peer.objects.filter(retired_at=None).exclude(mailbox__agent__in=["", *on_mesh])
    names = left.annotate(low=Lower("mailbox__address")).exclude(low__in=list(declared)).order_by("low")
    if found := list(names.values_list("low", flat=True)[: MAX_NAMED + 1]):
        more = " and more" if len(found) > MAX_NAMED else ""
        logger.warning(
            "On the mesh, but no longer declared: %s%s. They get letters and cannot answer; retire them.",
            ", ".join(found[:MAX_NAMED]),
            more,
        )


def _describe_again(agent: Agent) -> None:
    """What the agent says of itself may have changed since its mailboxes joined."""
    joined = Peer.objects.filter(mailbox__agent=agent.name, declared=False)
    joined.exclude(description=agent.description).update(description=agent.description)
    Capability.objects.filter(peer__in=joined).exclude(name__in=agent.capabilities).delete()
    for name in agent.capabilities:
        missing = joined.exclude(capabilities__name=name).values_list("pk", flat=True)
        Capability.objects.bulk_create([Capability(peer_id=pk, name=name) for pk in missing], ignore_conflicts=True)
