"""Blocking sends: what ends the wait, once, and what comes after it has ended."""

import pytest

from inbox.models import Item
from inbox.services import items
from mesh.models import Delivery
from mesh.services import answering, leaving, sending
from tests.factories import UserFactory, backdate
from tests.mesh.kit import letters, sender, wait_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def three(peers):
    return peers("a", "b", "c")


def test_the_wait_is_committed_with_the_message(three):
    a, *_ = three
    message = sending.send(sender(a), "b", "When?", blocking=True).message
    wait = wait_of(message)
    assert (wait.tag, wait.status, wait.blocking) == (f"mesh:waiting:{message.pk}", "pending", True)
    assert wait.due_at is not None


def test_an_acknowledgement_ends_the_wait_with_its_note(three):
    a, b, _ = three
    message = sending.send(sender(a), "b", "Will you?", blocking=True).message
    answering.acknowledge(b, message.pk, "I will.")
    wait = wait_of(message)
    assert (wait.status, wait.outcome, wait.response, wait.resolved_via) == ("resolved", "answered", "I will.", "mesh")
    assert not letters(a)


def test_a_reply_ends_the_wait_and_is_read_once(three):
    a, b, _ = three
    message = sending.send(sender(a), "b", "When?", blocking=True).message
    reply = sending.send(sender(b), "a", "At noon.", in_reply_to=message.pk)
    assert reply.ended_wait
    assert wait_of(message).response == "At noon."
    assert reply.message.pk in wait_of(message).resolved_by
    assert letters(a) == []
    assert Delivery.objects.get(message=reply.message).item_id == message.wait_id
    assert Delivery.objects.get(message=message).acknowledged_at is not None


def test_a_reply_after_the_wait_has_expired_arrives_as_mail(three):
    """Case 29's other side, and a later acknowledgement is not lost either."""
    a, b, _ = three
    message = sending.send(sender(a), "b", "When?", blocking=True).message
    backdate(wait_of(message), 1, "due_at")
    assert items.expire_due() == 1
    assert wait_of(message).outcome == "expired"
    reply = sending.send(sender(b), "a", "At noon.", in_reply_to=message.pk)
    assert not reply.ended_wait
    (letter,) = letters(a)
    assert (letter.response, letter.wakes) == ("At noon.", True)


def test_a_later_acknowledgement_arrives_and_does_not_wake(three):
    a, b, c = three
    message = sending.broadcast(sender(a), "Who?", blocking=True).message
    answering.acknowledge(b, message.pk, "Me.")
    answering.acknowledge(c, message.pk, "Me too.")
    assert wait_of(message).response == "Me."
    (letter,) = letters(a)
    assert (letter.tag, letter.response, letter.wakes, letter.rung) == ("mesh:ack:from:c", "Me too.", False, True)


def test_acknowledging_twice_changes_nothing(three):
    a, b, _ = three
    message = sending.send(sender(a), "b", "Will you?").message
    answering.acknowledge(b, message.pk, "Yes.")
    answering.acknowledge(b, message.pk, "Yes, yes.")
    assert len(letters(a)) == 1
    assert Delivery.objects.get().ack_note == "Yes."


def test_a_quorum_of_two_is_met_by_two_distinct_recipients(three):
    a, b, c = three
    message = sending.broadcast(sender(a), "Who?", blocking=True, quorum=2).message
    answering.acknowledge(b, message.pk, "Me.")
    answering.acknowledge(b, message.pk, "Me!")
    assert wait_of(message).status == "pending"
    answering.acknowledge(c, message.pk, "Me too.")
    assert wait_of(message).response == "b: Me.\nc: Me too."
    assert letters(a) == []


def test_a_reply_below_the_quorum_arrives_at_once_and_counts(three):
    a, b, c = three
    message = sending.broadcast(sender(a), "Who?", blocking=True, quorum="all").message
    assert not sending.send(sender(b), "a", "I, with pleasure.", in_reply_to=message.pk).ended_wait
    assert [letter.response for letter in letters(a)] == ["I, with pleasure."]
    assert sending.send(sender(c), "a", "I as well.", in_reply_to=message.pk).ended_wait
    assert wait_of(message).response == "I as well."
    assert len(letters(a)) == 1


def test_a_peer_retired_after_the_send_ends_the_wait(three):
    """Case 30."""
    a, b, _ = three
    message = sending.send(sender(a), "b", "When?", blocking=True).message
    leaving.retire(UserFactory(may=["mesh.manage_mesh"]), b.pk)
    assert (wait_of(message).status, wait_of(message).outcome) == ("resolved", "undeliverable")


def test_a_retired_recipient_leaves_the_quorum(three):
    a, b, c = three
    operator = UserFactory(may=["mesh.manage_mesh"])
    one = sending.broadcast(sender(a), "One?", blocking=True).message
    both = sending.broadcast(sender(a), "Both?", blocking=True, quorum="all").message
    leaving.retire(operator, b.pk)
    assert wait_of(one).status == "pending"  # the other may still answer
    assert wait_of(both).outcome == "undeliverable"
    answering.acknowledge(c, one.pk)
    assert wait_of(one).outcome == "answered"


def test_two_that_wait_for_each_other_are_told(three):
    a, b, _ = three
    first = sending.send(sender(a), "b", "You first?", blocking=True)
    second = sending.send(sender(b), "a", "No, you?", blocking=True)
    assert first.mutual is None
    assert second.mutual == first.message.pk
    (letter,) = letters(a)
    assert first.message.pk in letter.request  # and a reads the same of b
    assert "while you wait" in letter.request


def test_a_wait_is_one_of_the_open_items_of_its_mailbox(three, settings):
    settings.INBOX_MAX_OPEN_ITEMS = 2
    from inbox.errors import TooManyOpenItems

    a, *_ = three
    for n in range(2):
        sending.send(sender(a), "b", f"{n}?", blocking=True)
    with pytest.raises(TooManyOpenItems):
        sending.send(sender(a), "b", "3?", blocking=True)
    assert Item.objects.filter(tag__startswith="mesh:waiting").count() == 2
    assert Delivery.objects.count() == 2
