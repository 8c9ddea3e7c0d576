"""Each check of the mesh's data finds what breaks it, and is quiet where nothing does."""

import pytest

from inbox import invariants
from inbox.models import Item
from inbox.services import letters as dropping
from mesh.invariants import CHECKS
from mesh.models import Delivery, Message
from mesh.services import answering, sending
from tests.factories import backdate
from tests.mesh.kit import sender

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def said(peers):
    """Two waits, one of which has ended by a reply, and a broadcast."""
    a, b, c = peers("a", "b", "c")
    open_ = sending.send(sender(a), "b", "Well?", blocking=True).message
    asked = sending.send(sender(a), "b", "And?", blocking=True).message
    reply = sending.send(sender(b), [], "And so on.", in_reply_to=asked.pk).message
    everyone = sending.broadcast(sender(c), "Lunch.").message
    return {"open": open_, "asked": asked, "reply": reply, "everyone": everyone, "peers": (a, b, c)}


def delivery(message):
    return Delivery.objects.filter(message=message)


def stray_letter(said):
    box = said["peers"][2].mailbox_id
    return dropping.drop(box, tag="mesh:from:a", request="x", response="y", by="a", via="mesh", reserved=True)


BREACHES = {
    "mesh_delivered": lambda said: delivery(said["open"]).update(item=stray_letter(said)),
    "mesh_queued": lambda said: (
        delivery(said["open"]).update(status="queued", delivered_at=None, item=None),
        backdate(delivery(said["open"]).get(), 3600, "created_at"),
    ),
    "mesh_once": lambda said: delivery(said["everyone"]).update(item=delivery(said["everyone"]).first().item),
    "mesh_content": lambda said: Message.objects.filter(pk=said["open"].pk).update(content="Other words."),
    "mesh_sender": lambda said: delivery(said["open"]).update(sender=said["peers"][2]),
    "mesh_reply": lambda said: Message.objects.filter(pk=said["everyone"].pk).update(in_reply_to=said["open"].pk),
    "mesh_wait": lambda said: Message.objects.filter(pk=said["open"].pk).update(blocking=False),
    "mesh_wait_met": lambda said: delivery(said["open"]).update(acknowledged_at="2026-01-01T00:00Z"),
    "mesh_wait_hopeless": lambda said: Message.objects.filter(pk=said["open"].pk).update(quorum=2),
    "mesh_hops": lambda said: Message.objects.filter(pk=said["open"].pk).update(hops=99),
}


def test_every_check_has_its_breach():
    assert set(BREACHES) == {check.name for check in CHECKS}


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_is_found(said, name):
    assert invariants.breaches(CHECKS) == []
    BREACHES[name](said)
    assert name in {breach.check.name for breach in invariants.breaches(CHECKS)}


@pytest.mark.parametrize(("acknowledged", "name"), [(1, "mesh_wait_met"), (0, "mesh_wait_hopeless")])
def test_a_wait_for_everyone_is_open_only_while_somebody_is_left_to_answer(said, acknowledged, name):
    a, b, c = said["peers"]
    message = sending.broadcast(sender(a), "All?", blocking=True, quorum="all").message
    if acknowledged:
        answering.acknowledge(b, message.pk)
    assert invariants.breaches(CHECKS) == []
    gone = [c] if acknowledged else [b, c]
    delivery(message).filter(recipient__in=gone).update(status="dead", reason="lost", delivered_at=None, item=None)
    assert name in {breach.check.name for breach in invariants.breaches(CHECKS)}


def test_nothing_is_found_where_all_is_well(said):
    _, b, _ = said["peers"]
    answering.acknowledge(b, said["open"].pk, "Yes.")
    assert invariants.breaches(CHECKS) == []
    assert Item.objects.filter(status="pending").count() == 0
