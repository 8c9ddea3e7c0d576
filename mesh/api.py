"""The mesh over HTTP: a caller acts as the peer that its key is bound to, and as no other. Staff look after the peers."""

from typing import Annotated, Any, Literal

from django.db.models import QuerySet
from ninja import Field, Query, Router, Schema, Status

from inbox.errors import NotAllowed
from inbox.http.auth import Call
from inbox.http.fields import Body, Id, PathId, Time
from inbox.http.paging import Page, Paging, cut, make_cursor, newest_first, read_cursor
from mesh.errors import NobodyToReach, NotABroadcast, NotAPeer, UnknownPeer
from mesh.models import Delivery, Message, Peer
from mesh.receipts import receipt, receipts, received
from mesh.services import answering, leaving, peers, sending

router = Router(tags=["mesh"])


class PeerOut(Schema):
    """Somebody whom the caller may write to, or looks after. `retired_at` is null for whoever is on the mesh."""

    id: Id
    name: str
    description: str
    capabilities: list[str]
    metadata: dict[str, Any]
    retired_at: Time | None

    @staticmethod
    def resolve_name(peer: Peer) -> str:
        return str(peer)

    @staticmethod
    def resolve_capabilities(peer: Peer) -> list[str]:
        return sorted(capability.name for capability in peer.capabilities.all())


class Write(Body):
    """A message. Without `to` it is a broadcast to everyone whom the caller may write to, a topic, or those with a capability."""

    to: str | list[str] | None = Field(None, description="One address, or up to 100.")
    content: str
    in_reply_to: str | None = None
    blocking: bool = False
    topic: str | None = None
    capability: str | None = None
    quorum: str | int | None = Field(None, description='Of a blocking broadcast: "first", "all" or a number.')


class Acknowledge(Body):
    """What the recipient says of a message that it has taken up."""

    note: str | None = None


class DeliveryOut(Schema):
    """One recipient's receipt. `read_in` is the turn that read it, where an agent of this site did."""

    id: Id
    to: str
    status: Literal["queued", "delivered", "dead"]
    reason: str
    delivered_at: Time | None
    read_at: Time | None
    read_in: str | None
    acknowledged_at: Time | None
    note: str


class WaitOut(Schema):
    """What the sender of a blocking message waits for, and how that ended."""

    status: Literal["pending", "resolved", "consumed"]
    outcome: str = Field(
        description="Empty while it is pending; then answered, undeliverable, expired, cancelled or withdrawn."
    )
    response: str
    due_at: Time | None
    resolved_at: Time | None


class MeshMessageOut(Schema):
    """A message; its sender sees every receipt and its wait, an addressee its own receipt."""

    id: str
    kind: Literal["direct", "broadcast"]
    sender: str
    content: str
    in_reply_to: str | None
    blocking: bool
    hops: int
    created_at: Time
    deliveries: list[DeliveryOut]
    wait: WaitOut | None = Field(None, description="Null for others than its sender, and where nobody waits.")


class SentOut(Schema):
    """A message that is on its way."""

    id: str
    deliveries: list[DeliveryOut]


class PeerFilters(Schema):
    """Which peers."""

    capability: str | None = Field(None, max_length=100)
    name: str | None = Field(None, max_length=200, description="A part of the name.")
    retired: bool | None = Field(None, description="Of those whom staff look after.")


@router.get("/peers", response=Page[PeerOut], summary="Whom the caller may write to; all, for staff")
def list_peers(request: Call, paging: Paging, filters: Annotated[PeerFilters, Query(...)]) -> dict[str, Any]:
    found = _visible(request).select_related("mailbox").prefetch_related("capabilities")
    if filters.retired is not None:
        found = found.filter(retired_at__isnull=not filters.retired)
    if filters.capability:
        found = found.filter(capabilities__name=filters.capability)
    if filters.name:
        found = found.filter(mailbox__address__icontains=filters.name)
    return newest_first(found, paging, "peers")


@router.post("/peers/{id:peer_id}/retire", response=PeerOut, summary="Take a peer off the mesh")
def retire(request: Call, peer_id: PathId) -> Peer:
    return leaving.retire(request.auth.user, _looked_after(request, peer_id))


@router.post("/peers/{id:peer_id}/bring-back", response=PeerOut, summary="Undo that")
def bring_back(request: Call, peer_id: PathId) -> Peer:
    return leaving.bring_back(request.auth.user, _looked_after(request, peer_id))


@router.post("/messages", response={201: SentOut}, summary="Write to peers")
def send_message(request: Call, letter: Write) -> Status[dict[str, Any]]:
    who = sending.From(_peer(request))
    if letter.to is None and letter.in_reply_to is None:
        named = sorted({"to", "topic", "capability"} & letter.model_fields_set)
        if named and not (letter.topic or letter.capability):
            raise NobodyToReach(
                f"`{named[0]}` is there and names nobody: fill it in, or leave it out to write to everyone."
            )
        sent = sending.broadcast(
            who,
            letter.content,
            blocking=letter.blocking,
            topic=letter.topic,
            capability=letter.capability,
            quorum=letter.quorum,
        )
    else:
        if letter.topic or letter.capability or letter.quorum not in (None, "", "first"):
            raise NotABroadcast
        sent = sending.send(
            who, letter.to or [], letter.content, in_reply_to=letter.in_reply_to, blocking=letter.blocking
        )
    return Status(201, {"id": sent.message.pk, "deliveries": receipts(sent.message)})


@router.get("/messages", response=Page[MeshMessageOut], summary="Messages to the caller, newest first")
def list_messages(request: Call, paging: Paging) -> dict[str, Any]:
    peer = _peer(request)
    rows = Delivery.objects.filter(recipient=peer, status=Delivery.Status.DELIVERED)
    if paging.cursor is not None:
        rows = rows.filter(pk__lt=read_cursor(paging.cursor, "mesh", 1)[0])
    page = cut(received(rows, paging.limit + 1), paging, lambda rows: make_cursor("mesh", rows[-1].pk))
    page["items"] = [_shown(delivery.message, [receipt(delivery)]) for delivery in page["items"]]
    return page


@router.get("/messages/{message_id}", response=MeshMessageOut, summary="A message and its receipts")
def get_message(request: Call, message_id: str) -> dict[str, Any]:
    peer = _peer(request)
    message = answering.find_message(peer, message_id)
    if message.sender_id == peer.pk:
        return {**_shown(message, receipts(message)), "wait": message.wait}
    return _shown(message, receipts(message, recipient=peer))


@router.post("/messages/{message_id}/ack", response=MeshMessageOut, summary="Acknowledge a message")
def acknowledge(request: Call, message_id: str, said: Acknowledge = Acknowledge()) -> dict[str, Any]:
    peer = _peer(request)
    message = answering.acknowledge(peer, message_id, said.note or "").message
    return _shown(message, receipts(message, recipient=peer))


def _peer(request: Call) -> Peer:
    request.auth.require("mesh")
    key = request.auth.key
    if key is None or key.peer_id is None:
        raise NotAPeer(
            "The mesh takes a key that is bound to a peer: manage.py create_api_key USERNAME --name N --peer ADDRESS."
        )
    return peers.peer_of(key.peer_id)


def _visible(request: Call) -> QuerySet[Peer]:
    """Whom the caller's peer may write to; or, without a peer, everyone for whom may view them."""
    request.auth.require("mesh")
    if request.auth.user.has_perm("mesh.view_peer") and not (request.auth.key and request.auth.key.peer_id):
        return Peer.objects.all()
    return peers.visible_to(_peer(request))


def _looked_after(request: Call, peer_id: int) -> int:
    """A peer, for whoever looks after them. A key that speaks for a peer does nothing else, whatever its user may."""
    bound = request.auth.key and request.auth.key.peer_id
    if not bound and not request.auth.user.has_perm("mesh.view_peer"):
        raise NotAllowed("You need the permissions mesh.view_peer and mesh.manage_mesh to look after peers.")
    if not _visible(request).filter(pk=peer_id).exists():
        raise UnknownPeer("There is no such peer.")
    if bound:
        raise NotAllowed("This key speaks for a peer. Who looks after peers uses a session, or a key without one.")
    return peer_id


def _shown(message: Message, deliveries: list[Any]) -> dict[str, Any]:
    return {
        "id": message.pk,
        "kind": message.kind,
        "sender": str(message.sender),
        "content": message.content,
        "in_reply_to": message.in_reply_to_id,
        "blocking": message.blocking,
        "hops": message.hops,
        "created_at": message.created_at,
        "deliveries": deliveries,
    }
