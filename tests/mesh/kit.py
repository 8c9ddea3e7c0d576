"""Peers, letters and turns for tests of the mesh."""

from agents.models import Conversation, Turn
from agents.services import turns
from inbox.models import Item
from inbox.services.mailboxes import open_mailbox
from mesh.models import Peer
from mesh.services import joining
from mesh.services.sending import From


def public_peer(address, *, agent="worker", owner=None, public=True, capabilities=()):
    mailbox = open_mailbox(address, agent=agent, owner=owner)
    peer = joining.join(mailbox, public=public)
    if capabilities:
        joining.describe(peer, description="", capabilities=capabilities)
    Peer.objects.filter(pk=peer.pk).update(public=public)
    peer.refresh_from_db()
    return peer


def sender(peer, conversation=None, turn=None):
    return From(peer, conversation, turn)


def letters(peer, status=None):
    """What lies in a peer's mailbox, its own waits apart, oldest first."""
    found = Item.objects.filter(mailbox=peer.mailbox).exclude(tag__startswith="mesh:waiting:").order_by("pk")
    return list(found.filter(status=status) if status else found)


def wait_of(message):
    return Item.objects.get(pk=message.wait_id)


def run_all(limit=200):
    """Run queued turns until there are none; returns how many ran."""
    for ran in range(limit):
        turn = Turn.objects.filter(status="queued").order_by("pk").first()
        if turn is None:
            return ran
        assert turns.start(turn.pk) == "done"
    raise AssertionError(f"{limit} turns were not enough")


def conversation_of(peer):
    return Conversation.objects.filter(mailbox=peer.mailbox).latest("pk")
