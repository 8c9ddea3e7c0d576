"""Transports that lose, double and reorder: each letter arrives once, in order per pair, or is dead with a reason."""

import pytest
from django.db import OperationalError

from mesh.errors import DeliveryNotFound, MessageNotFound
from mesh.models import Delivery
from mesh.services import answering, delivering, desk, leaving, peers, sending
from mesh.transports import memory
from tests.factories import UserFactory
from tests.mesh.kit import letters, sender, wait_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def three(peers, settings):
    settings.MESH_TRANSPORTS = {"default": {"BACKEND": "mesh.transports.memory.MemoryTransport", "OPTIONS": {}}}
    memory.MemoryTransport.queue.clear()
    return peers("a", "b", "c")


def test_what_is_lost_or_doubled_arrives_once(three):
    a, b, _ = three
    for n in range(3):
        sending.send(sender(a), "b", f"{n}")
    first, second, lost = memory.MemoryTransport.queue
    memory.MemoryTransport.queue[:] = [first, second, first]
    assert memory.MemoryTransport.pump() == 2
    assert [letter.response for letter in letters(b)] == ["0", "1"]
    assert delivering.deliver_queued() == 1
    assert [letter.response for letter in letters(b)] == ["0", "1", "2"]
    assert not delivering.deliver(lost)


def test_each_pair_keeps_its_order_whatever_comes_first(three):
    """What overtakes on the way waits for what was sent before it; other pairs do not."""
    a, b, c = three
    for n in range(3):
        sending.send(sender(a), "b", f"{n}")
        sending.send(sender(c), "b", f"c{n}")
    memory.MemoryTransport.queue.reverse()
    last = memory.MemoryTransport.queue[1]  # the third of a's
    assert delivering.deliver(last)
    assert [letter.response for letter in letters(b)] == ["0", "1", "2"]
    memory.MemoryTransport.pump()
    assert [letter.response for letter in letters(b)] == ["0", "1", "2", "c0", "c1", "c2"]
    assert not Delivery.objects.exclude(status="delivered").exists()


def test_a_dead_letter_closes_its_gap(three):
    a, b, _ = three
    for n in range(3):
        sending.send(sender(a), "b", f"{n}")
    first, _, last = memory.MemoryTransport.queue
    assert delivering.bury(first, "lost on the way")
    assert delivering.deliver(last)
    assert [letter.response for letter in letters(b)] == ["1", "2"]


def test_what_comes_for_a_peer_that_is_gone_is_dead_and_sent_again_when_it_is_back(three):
    a, b, _ = three
    operator = UserFactory(may=["mesh.manage_mesh"])
    message = sending.send(sender(a), "b", "Hello?", blocking=True).message
    leaving.retire(operator, b.pk)
    memory.MemoryTransport.pump()
    delivery = Delivery.objects.get()
    assert (delivery.status, delivery.reason) == ("dead", delivering.RETIRED)
    assert wait_of(message).outcome == "undeliverable"
    leaving.bring_back(operator, b.pk)
    assert desk.send_again(operator, delivery.pk).status == "delivered"
    assert [letter.response for letter in letters(b)] == ["Hello?"]


def test_sent_again_to_a_peer_that_is_still_gone_it_is_dead_again(three):
    a, b, _ = three
    operator = UserFactory(may=["mesh.manage_mesh"])
    sending.send(sender(a), "b", "Hello?")
    leaving.retire(operator, b.pk)
    assert delivering.deliver_queued() == 1
    row = desk.send_again(operator, Delivery.objects.get().pk)
    assert (row.status, row.reason) == ("dead", delivering.RETIRED)
    assert not letters(b)


def test_sent_again_it_does_not_say_that_somebody_waits_who_does_not(three):
    a, b, _ = three
    operator = UserFactory(may=["mesh.manage_mesh"])
    sending.send(sender(a), "b", "Hello?", blocking=True)
    delivering.bury(Delivery.objects.get().pk, "lost")
    assert desk.send_again(operator, Delivery.objects.get().pk).status == "delivered"
    assert "waits" not in letters(b)[0].request


def test_sent_again_in_vain_it_is_dead_again_with_the_reason(three, monkeypatch):
    a, _, _ = three
    operator = UserFactory(may=["mesh.manage_mesh"])
    sending.send(sender(a), "b", "Poison.")
    delivering.bury(Delivery.objects.get().pk, "lost")

    def broken(*given, **letter):
        raise ValueError("no such thing")

    monkeypatch.setattr(delivering.letters, "drop", broken)
    row = desk.send_again(operator, Delivery.objects.get().pk)
    assert (row.status, row.reason) == ("dead", "it could not be delivered: ValueError")


def test_one_that_is_locked_for_long_holds_nobody_up(three, monkeypatch):
    a, b, c = three
    for name in ("b", "c"):
        sending.send(sender(a), name, "Hello!")
    deliver, locked = delivering.deliver, Delivery.objects.get(recipient=b).pk

    def slow(pk):
        if pk == locked:
            raise OperationalError("canceling statement due to lock timeout")
        return deliver(pk)

    monkeypatch.setattr(delivering, "deliver", slow)
    assert delivering.deliver_queued() == 1
    assert [len(letters(peer)) for peer in (b, c)] == [0, 1]
    monkeypatch.undo()
    assert delivering.deliver_queued() == 1


def test_one_that_cannot_be_delivered_is_dead_and_holds_nobody_up(three, monkeypatch):
    a, b, c = three
    sending.send(sender(a), "b", "Hello?", blocking=True)
    wait = sending.send(sender(a), "b", "Poison.", blocking=True).message
    sending.send(sender(c), "a", "Hello!")
    drop = delivering.letters.drop

    def broken(mailbox, **letter):
        if letter["response"] == "Poison.":
            raise ValueError("no such thing")
        return drop(mailbox, **letter)

    monkeypatch.setattr(delivering.letters, "drop", broken)
    assert delivering.deliver_queued() == 3
    assert [letter.response for letter in letters(b)] == ["Hello?"]
    assert [letter.response for letter in letters(a)] == ["Hello!"]
    dead = Delivery.objects.get(status="dead")
    assert dead.reason == "it could not be delivered: ValueError"
    assert wait_of(wait).outcome == "undeliverable"


def test_what_has_not_arrived_is_nobodys_to_read_or_acknowledge(three):
    a, b, _ = three
    message = sending.send(sender(a), "b", "On its way.", blocking=True).message
    with pytest.raises(MessageNotFound):
        answering.find_message(b, message.pk)
    with pytest.raises(MessageNotFound):
        answering.acknowledge(b, message.pk)
    assert a in peers.visible_to(b)  # a is public; what was not delivered makes nobody visible:
    a.public = False
    a.save(update_fields=["public"])
    assert a not in peers.visible_to(b)
    memory.MemoryTransport.pump()
    assert a in peers.visible_to(b)
    assert answering.acknowledge(b, message.pk).ended_wait


def test_a_broadcast_is_queued_for_each(three):
    a, b, c = three
    message = sending.broadcast(sender(a), "Lunch.").message
    assert message.deliveries.filter(status="queued").count() == 2
    assert memory.MemoryTransport.pump() == 2
    assert [len(letters(peer)) for peer in (b, c)] == [1, 1]
    assert letters(b)[0].tag == "mesh:broadcast:from:a"


def test_there_is_no_such_delivery(three):
    for act in (lambda: delivering.deliver(77), lambda: delivering.bury(77, "gone")):
        with pytest.raises(DeliveryNotFound):
            act()
