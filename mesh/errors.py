"""What can go wrong on the mesh. The docstring is the message, unless the raiser says it better."""

from collections.abc import Callable
from typing import Any

from inbox.errors import InboxError


class MeshError(InboxError):
    """The mesh could not do this."""

    slug = "mesh-error"


class BadPeer(MeshError):
    """This peer cannot be declared."""

    slug, status = "bad-peer", 422


class NotAPeer(MeshError):
    """This mailbox, or this key, is not a peer of the mesh."""

    slug, status = "not-a-peer", 403


class UnknownPeer(MeshError):
    """There is no such peer among those that you may write to."""

    slug, status = "unknown-peer", 404


class NobodyToReach(MeshError):
    """The broadcast would reach nobody."""

    slug, status = "nobody-to-reach", 422


class MessageNotFound(MeshError):
    """There is no such message among those that were sent to you or by you."""

    slug, status = "message-not-found", 404


class NotAddressed(MeshError):
    """Only an addressee may acknowledge a message or reply to it."""

    slug, status = "not-addressed", 403


class BadQuorum(MeshError):
    """A quorum is "first", "all", or a number from 1 to the number of recipients, of a blocking broadcast."""

    slug, status = "bad-quorum", 422


class NotABroadcast(MeshError):
    """A topic, a capability and a quorum are for a broadcast: leave `to` and `in_reply_to` out, or these."""

    slug, status = "not-a-broadcast", 422


class Busy(MeshError):
    """Messages are being sent without a pause just now; nothing was changed. Try again."""

    slug, status = "busy", 409


class TooManyHops(MeshError):
    """This chain of messages is too long and was stopped. Do not send further; staff have been told."""

    slug, status = "too-many-hops", 409

    def __init__(self, notice: Callable[[], None], **facts: Any) -> None:
        super().__init__(**facts)
        self.remember = notice  # type: ignore[method-assign]


class TooFast(MeshError):
    """You send too many messages. Wait a minute."""

    slug, status = "too-fast", 429


class DeliveryNotFound(MeshError):
    """There is no such delivery."""

    slug, status = "delivery-not-found", 404


class ChainNotFound(MeshError):
    """There is no such stopped chain."""

    slug, status = "chain-not-found", 404


class NotDead(MeshError):
    """Only a dead delivery is sent again or closed; nothing was changed."""

    slug, status = "not-dead", 409
