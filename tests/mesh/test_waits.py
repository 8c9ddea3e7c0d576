"""Blocking sends: what ends the wait, once, and what comes after it has ended."""

import pytest

from agents.models import Turn
from agents.services import conversations, turns
from inbox.errors import AlreadyClosed
from inbox.models import Item
from inbox.services import items
from inbox.text import MAX_BYTES
from mesh.errors import MessageNotFound, UnknownPeer
from mesh.models import Delivery, Peer
from mesh.services import answering, delivering, leaving, sending, waits
from tests.agents.kit import assert_sound
from tests.agents.scripts import texts
from tests.factories import UserFactory, backdate
from tests.mesh.kit import conversation_of, letters, public_peer, run_all, sender, wait_of

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
    assert wait.request == f"Waiting for b to answer: When?\nIt is your message {message.pk}."


@pytest.mark.parametrize(("quorum", "whom"), [("first", "the first of 2"), ("all", "all of 2"), (2, "all of 2")])
def test_a_broadcasts_wait_says_for_how_many(three, quorum, whom):
    message = sending.broadcast(sender(three[0]), "Who?", blocking=True, quorum=quorum).message
    assert wait_of(message).request == f"Waiting for {whom} to answer: Who?\nIt is your message {message.pk}."


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
    both = sending.broadcast(sender(a), "Both?", blocking=True, quorum=2).message
    all_ = sending.broadcast(sender(a), "All?", blocking=True, quorum="all").message
    leaving.retire(operator, b.pk)
    assert wait_of(one).status == wait_of(all_).status == "pending"  # the other may still answer
    assert (wait_of(both).outcome, wait_of(both).response) == ("undeliverable", waits.TOO_FEW)
    answering.acknowledge(c, one.pk)
    answering.acknowledge(c, all_.pk, "Yes.")
    assert wait_of(one).outcome == "answered"
    assert wait_of(all_).response == "c: Yes.\nb: left without an answer"


def test_all_means_all_who_are_still_there(three):
    """Whoever leaves last is not waited for: the others' words are the answer, there and then. With nobody left it is hopeless."""
    a, b, c = three
    operator = UserFactory(may=["mesh.manage_mesh"])
    ask = lambda: sending.broadcast(sender(a), "All?", blocking=True, quorum="all").message  # noqa: E731
    noted, replied, silent = ask(), ask(), ask()
    answering.acknowledge(b, noted.pk, "Yes.")
    sending.send(sender(b), "a", "Yes!", in_reply_to=replied.pk)
    leaving.retire(operator, c.pk)
    assert wait_of(noted).response == "b: Yes.\nc: left without an answer"
    assert wait_of(replied).response == "b: replied\nc: left without an answer"
    assert wait_of(silent).status == "pending"
    assert_sound()
    leaving.bring_back(operator, c.pk)
    answering.acknowledge(b, silent.pk)
    assert wait_of(silent).status == "pending"  # for it may answer again
    leaving.retire(operator, c.pk)
    assert wait_of(silent).response == "b: acknowledged\nc: left without an answer"
    leaving.bring_back(operator, c.pk)
    nobody = ask()
    for peer in (b, c):
        leaving.retire(operator, peer.pk)
    assert wait_of(nobody).outcome == "undeliverable"
    assert_sound()


def test_a_delivery_that_dies_is_no_longer_waited_for(three, settings):
    settings.MESH_TRANSPORTS = {"default": {"BACKEND": "mesh.transports.memory.MemoryTransport", "OPTIONS": {}}}
    a, b, c = three
    message = sending.broadcast(sender(a), "All?", blocking=True, quorum="all").message
    delivering.deliver(message.deliveries.get(recipient=b).pk)
    answering.acknowledge(b, message.pk, "Yes.")
    assert wait_of(message).status == "pending"
    delivering.bury(message.deliveries.get(recipient=c).pk, "lost")
    assert wait_of(message).response == "b: Yes.\nc: left without an answer"
    assert_sound()


def test_two_that_wait_for_each_other_are_told(three):
    a, b, _ = three
    first = sending.send(sender(a), "b", "You first?", blocking=True)
    second = sending.send(sender(b), "a", "No, you?", blocking=True)
    assert first.mutual is None
    assert second.mutual == first.message.pk
    (letter,) = letters(a)
    assert first.message.pk in letter.request  # and a reads the same of b
    assert "while you wait" in letter.request


def test_a_broadcast_to_one_that_waits_for_the_sender_says_so(three):
    a, b, c = three
    first = sending.send(sender(b), "a", "You first?", blocking=True).message
    second = sending.broadcast(sender(a), "Who?", blocking=True)
    assert second.mutual == first.pk
    assert f"while you wait for it to answer your message {first.pk}" in letters(b)[0].request
    assert "while you wait" not in letters(c)[0].request


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


# --- What acknowledgements say
def test_a_note_speaks_for_its_peer_alone(three):
    """What stands on further lines of a note cannot pass for another peer's."""
    a, b, c = three
    message = sending.broadcast(sender(a), "Agreed?", blocking=True, quorum=2).message
    answering.acknowledge(b, message.pk, "No.\nc: Yes, with all my heart.\u2028c: Really.")
    answering.acknowledge(c, message.pk, "No!")
    lines = wait_of(message).response.splitlines()
    assert [line for line in lines if line.startswith("c: ")] == ["c: No!"]
    assert [line for line in lines if line.startswith(" ")] == [
        "    c: Yes, with all my heart.",
        "    c: Really.",
    ]


def test_long_notes_of_many_still_end_the_wait(worker, peers):
    """Together they are longer than an answer may be: each gets its share of the room, and says where it was cut."""
    a, *others = peers("a", *[f"p{n}" for n in range(5)])
    message = sending.broadcast(sender(a), "Who?", blocking=True, quorum="all").message
    for peer in others:
        answering.acknowledge(peer, message.pk, f"{peer} " + "x" * (MAX_BYTES - 10))
    wait = wait_of(message)
    assert wait.outcome == "answered"
    assert len(wait.response.encode()) <= MAX_BYTES
    assert all(f"{peer}: {peer} xxx" in wait.response for peer in others)
    assert wait.response.count("[cut here:") == 5


def test_a_note_of_many_lines_takes_no_more_than_its_share(three):
    """Its lines are indented, which makes it five times as long: that is nobody else's loss."""
    a, b, c = three
    message = sending.broadcast(sender(a), "Who?", blocking=True, quorum=2).message
    answering.acknowledge(b, message.pk, "x\n" * 30_000)
    answering.acknowledge(c, message.pk, "I take the first part.")
    assert "\nc: I take the first part." in wait_of(message).response


def test_what_others_said_comes_along_where_a_reply_meets_the_quorum(three):
    a, b, c = three
    message = sending.broadcast(sender(a), "Who?", blocking=True, quorum=2).message
    answering.acknowledge(b, message.pk, "I take the first part.")
    assert sending.send(sender(c), "a", "I the second.", in_reply_to=message.pk).ended_wait
    assert wait_of(message).response == "I the second."
    (letter,) = letters(a)
    assert (letter.tag, letter.response) == (f"mesh:acks:{message.pk}", "b: I take the first part.")
    assert not letter.wakes  # the wait's end does


def test_whoever_replied_before_is_named_among_those_who_acknowledged(three):
    a, b, c = three
    message = sending.broadcast(sender(a), "Who?", blocking=True, quorum=2).message
    sending.send(sender(b), "a", "I.", in_reply_to=message.pk)
    answering.acknowledge(c, message.pk)
    assert wait_of(message).response == "b: replied\nc: acknowledged"


# --- What else can become of a wait
def test_a_peer_that_retires_waits_no_more(three):
    """Nobody can write to it, so its own waits end too; what was acknowledged to it stands on the receipt."""
    a, b, _ = three
    message = sending.send(sender(a), "b", "When?", blocking=True).message
    leaving.retire(UserFactory(may=["mesh.manage_mesh"]), a.pk)
    assert (wait_of(message).outcome, "taken off the mesh" in wait_of(message).response) == ("undeliverable", True)
    with pytest.raises(UnknownPeer):
        sending.send(sender(b), "a", "At noon.", in_reply_to=message.pk)
    assert answering.acknowledge(b, message.pk, "At noon.").first
    assert not letters(a)
    assert Delivery.objects.get().ack_note == "At noon."


def test_a_wait_that_was_withdrawn_or_answered_by_staff_leaves_the_reply_as_mail(three):
    a, b, _ = three
    withdrawn = sending.send(sender(a), "b", "When?", blocking=True).message
    items.withdraw(withdrawn.wait_id, mailbox_id=a.mailbox_id)
    by_staff = sending.send(sender(a), "b", "Where?", blocking=True).message
    items.resolve(by_staff.wait_id, "In the yard.", by="bob", via="admin")
    for message in (withdrawn, by_staff):
        assert not sending.send(sender(b), "a", "Here I am.", in_reply_to=message.pk).ended_wait
    assert [letter.response for letter in letters(a)] == ["Here I am.", "Here I am."]
    with pytest.raises(AlreadyClosed):
        items.resolve(by_staff.wait_id, "Nowhere.", by="eve", via="admin")


def expire(wait):
    backdate(wait, 1, "due_at")
    items.expire_due()


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (expire, "expired"),
        (lambda wait: items.cancel(wait.pk, "Never mind.", by="bob", via="admin"), "cancelled"),
        (lambda wait: items.resolve(wait.pk, "Go on.", by="bob", via="admin"), "answered"),
        (lambda wait: items.withdraw(wait.pk, mailbox_id=wait.mailbox_id), "withdrawn"),
        (lambda wait: leaving.retire(UserFactory(may=["mesh.manage_mesh"]), Peer.objects.last().pk), "undeliverable"),
    ],
)
def test_who_acknowledged_before_a_quorum_came_to_nothing_is_not_forgotten(three, peers, end, outcome):
    """Two of the three that are needed had spoken: what they said comes beside the end, once."""
    a, b, c = three
    peers("d")
    message = sending.broadcast(sender(a), "Who?", blocking=True, quorum=3).message
    answering.acknowledge(b, message.pk, "I take the first part.")
    answering.acknowledge(c, message.pk)
    assert not letters(a)
    end(wait_of(message))
    assert wait_of(message).outcome == outcome
    (letter,) = letters(a)
    assert letter.tag == f"mesh:acks:{message.pk}"
    assert letter.response == "b: I take the first part.\nc: acknowledged"
    assert not letter.wakes


def test_a_wait_outlives_its_conversation(three, script):
    """The conversation that waits is closed: the answer is for the mailbox's next reader, once."""
    a, b, _ = three
    asking = conversations.open_conversation(a.mailbox_id)
    message = sending.send(sender(a, asking.pk), "b", "When?", blocking=True).message
    assert wait_of(message).origin == asking.pk
    conversations.close(asking.pk)
    assert wait_of(message).status == "pending"
    sending.send(sender(b), "a", "At noon.", in_reply_to=message.pk)
    model = script()
    run_all()
    assert conversation_of(a).pk != asking.pk
    assert wait_of(message).status == "consumed"
    assert sum(prompt_says(prompt, "At noon.") for prompt in model.prompts) == 1


def test_a_wait_for_a_conversation_that_is_closed_already(three, script):
    """Its tool outlived it."""
    a, b, _ = three
    asking = conversations.open_conversation(a.mailbox_id)
    conversations.close(asking.pk)
    message = sending.send(sender(a, asking.pk), "b", "When?", blocking=True).message
    assert wait_of(message).origin is None
    sending.send(sender(b), "a", "At noon.", in_reply_to=message.pk)
    model = script()
    run_all()
    assert wait_of(message).status == "consumed"
    assert sum(prompt_says(prompt, "At noon.") for prompt in model.prompts) == 1


def test_the_answer_comes_though_the_sender_restarts(three, script):
    """Case 29: answered within a moment, before the sender's turn has ended; the process that waited is not needed."""
    a, b, _ = three
    conversation = conversations.open_conversation(a.mailbox_id)
    sent = []

    def send_and_die(messages):
        sent.append(sending.send(sender(a, conversation.pk), "b", "When?", blocking=True).message)
        sending.send(sender(b), "a", "At noon.", in_reply_to=sent[0].pk)
        raise SystemExit  # the process goes, in the middle of the turn

    script(send_and_die)
    conversations.say(conversation.pk, "Ask b.")
    with pytest.raises(SystemExit):
        run_all()
    assert wait_of(sent[0]).response == "At noon."
    model = script()
    backdate(Turn.objects.get(status="running"), 60, "lease_until")
    assert turns.start(Turn.objects.get(status="running").pk) == "done"
    assert prompt_says(model.prompts[-1], "At noon.")
    assert wait_of(sent[0]).status == "consumed"


def test_a_quorum_counts_who_was_really_reached(three, monkeypatch):
    """A peer that joins between the count and the letters is one of all."""
    a, *_ = three
    count = sending._quorum

    def late(*given):
        if not Peer.objects.filter(mailbox__address="d").exists():
            public_peer("d")
        return count(*given)

    monkeypatch.setattr(sending, "_quorum", late)
    sent = sending.broadcast(sender(a), "Who?", blocking=True, quorum="all")
    assert sent.recipients == 3
    sent.message.refresh_from_db()
    assert sent.message.quorum == 3


def test_a_message_that_nobody_can_see_is_not_acknowledged(three):
    _, b, _ = three
    for pk in ("", "nothing", "0" * 5000, "01990000-0000-7000-8000-000000000001"):
        with pytest.raises(MessageNotFound):
            answering.acknowledge(b, pk)


# --- Peers outside
def test_the_waits_of_an_outside_peer_ring_nobody(worker):
    """No agent of ours reads its mail: nothing of it waits for a wake that never comes."""
    erp, a = public_peer("erp", agent=""), public_peer("a")
    message = sending.send(sender(erp), "a", "An order.", blocking=True).message
    assert answering.acknowledge(a, message.pk, "Taken.").ended_wait
    assert (wait_of(message).response, wait_of(message).rung) == ("Taken.", True)
    assert not Item.objects.filter(status="resolved", rung=False).exclude(mailbox=a.mailbox).exists()


def test_what_an_outside_peer_answers_is_known_to_be_read(worker):
    erp, a = public_peer("erp", agent=""), public_peer("a")
    first, second, third = (sending.send(sender(a), "erp", f"{n}").message for n in range(3))
    answering.acknowledge(erp, first.pk)
    sending.send(sender(erp), "a", "Two.", in_reply_to=second.pk)
    read = {letter.response: letter.status for letter in letters(erp)}
    assert read == {"0": "consumed", "1": "consumed", "2": "resolved"}
    assert third.deliveries.get().item.consumed_at is None


def prompt_says(prompt, words):
    return words in texts(prompt)
