"""A mailbox that no agent of ours reads: its mail counts as rung, or each sweep would look at it for ever."""

import pytest

from agents.models import Conversation
from agents.services import waking
from inbox.models import Item
from inbox.services import items
from inbox.services.mailboxes import open_mailbox

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def waiting():
    """What an outside peer waits for."""
    mailbox = open_mailbox("elsewhere", agent="")
    return items.post(mailbox.pk, tag="mesh:waiting:1", request="?", reserved=True)


def test_nobody_is_woken_and_nothing_is_left_to_ring(waiting):
    items.resolve(waiting.pk, "Yes.", by="bob", via="mesh")
    found = Item.objects.get()
    assert (found.status, found.rung) == ("resolved", True)
    assert not Conversation.objects.exists()


def test_the_sweep_finds_what_the_signal_did_not(waiting, monkeypatch):
    monkeypatch.setattr(items.mailbox_ready, "send_robust", lambda *args, **kwargs: [])
    items.resolve(waiting.pk, "Yes.", by="bob", via="mesh")
    assert waking.wake_unrung() == 1
    assert waking.wake_unrung() == 0
    assert Item.objects.get().rung
