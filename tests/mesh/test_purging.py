"""Old messages are forgotten when they are done with, and not before."""

from datetime import timedelta

import pytest
from django.core.management import call_command

from inbox.services import items, reading
from mesh.models import Delivery, Message, StoppedChain
from mesh.services import answering, desk, purging, sending
from tests.agents.kit import assert_sound
from tests.factories import UserFactory, backdate
from tests.mesh.kit import letters, public_peer, sender

pytestmark = pytest.mark.django_db(transaction=True)
DAY = timedelta(days=1)


NOW = timedelta(0)


def read(peer):
    reading.consume([letter.pk for letter in letters(peer, "resolved")], None)


def test_what_was_read_long_ago_goes_with_its_receipts(peers, capsys):
    a, b, c = peers("a", "b", "c")
    message = sending.broadcast(sender(a), "All.").message
    for peer in (b, c):
        read(peer)
    reply = sending.send(sender(b), [], "Yes.", in_reply_to=message.pk).message
    assert purging.purge(NOW) == {"mesh messages": 1, "stopped chains": 0}
    reply.refresh_from_db()
    assert reply.in_reply_to_id is None
    assert Delivery.objects.get().message == reply
    read(a)
    assert purging.purge(NOW)["mesh messages"] == 1
    assert not Message.objects.exists()
    assert_sound()
    call_command("purge", "--older-than", "1d")
    assert "mesh messages: 0" in capsys.readouterr().out


def test_what_is_not_done_with_stays(peers):
    a, b, c = peers("a", "b", "c")
    unread = sending.send(sender(a), "b", "Unread.").message
    waiting = sending.send(sender(a), "b", "Well?", blocking=True).message
    read_just_now = sending.send(sender(a), "c", "Read just now.").message
    dead = sending.send(sender(a), "c", "Dead.").message
    Delivery.objects.filter(message=dead).update(status="dead", reason="lost", delivered_at=None, item=None)
    for message in (unread, waiting, read_just_now, dead):
        backdate(message, 2 * 86400, "created_at")
    reading.consume([Delivery.objects.get(message=waiting).item_id], None)
    read(c)
    assert purging.purge(DAY)["mesh messages"] == 0
    assert purging.purge(NOW)["mesh messages"] == 1  # what was read just now, which then is long ago
    answering.acknowledge(b, waiting.pk, "Yes.")
    desk.close(UserFactory(may=["mesh.manage_mesh"]), Delivery.objects.get(message=dead).pk)
    assert purging.purge(NOW)["mesh messages"] == 2
    assert [message.pk for message in Message.objects.all()] == [unread.pk]


def test_a_stopped_chain_goes_when_staff_took_note_of_it(worker):
    a = public_peer("a")
    chain = StoppedChain.objects.create(root="01990000-0000-7000-8000-000000000001", sender=a, content="And so on.")
    backdate(chain, 2 * 86400, "created_at")
    assert purging.purge(DAY)["stopped chains"] == 0
    desk.see(UserFactory(may=["mesh.manage_mesh"]), chain.pk)
    assert purging.purge(DAY)["stopped chains"] == 1
    assert items.expire_due() == 0
