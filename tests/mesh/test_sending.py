"""Letters between peers: who gets them, who may write to whom, what is refused."""

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from agents.models import Turn
from agents.services import waking
from inbox.errors import BadAddress, BlankText, TextTooLong, UnstorableText
from inbox.models import Item, Mailbox
from inbox.services.mailboxes import open_mailbox
from inbox.signals import many_ready
from mesh.errors import BadQuorum, MessageNotFound, NobodyToReach, NotAddressed, NotAPeer, TooFast, UnknownPeer
from mesh.models import Delivery, Message, Subscription
from mesh.services import answering, leaving, sending
from mesh.services import peers as peer_services
from tests.agents.kit import assert_sound
from tests.factories import UserFactory, fresh
from tests.mesh.kit import letters, public_peer, run_all, sender, wait_of

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_message_is_one_item_that_names_sender_and_id(peers):
    a, b = peers("a", "b")
    sent = sending.send(sender(a), "b", "The plan is ready.")
    (letter,) = letters(b)
    assert (letter.tag, letter.status, letter.response) == ("mesh:from:a", "resolved", "The plan is ready.")
    assert sent.message.pk in letter.request
    assert " from a" in letter.request
    assert (letter.resolved_by, letter.resolved_via, letter.asked) == ("a", "mesh", False)
    assert Delivery.objects.get().item_id == letter.pk


def test_message_ids_are_uuid_version_7_and_sort_by_time(peers):
    a, _ = peers("a", "b")
    ids = [sending.send(sender(a), "b", f"{n}").message.pk for n in range(5)]
    assert all(len(pk) == 36 and pk[14] == "7" and pk[19] in "89ab" for pk in ids)
    assert [pk[:13] for pk in ids] == sorted(pk[:13] for pk in ids)


def test_the_same_recipient_twice_is_one_item(peers):
    """Case 31."""
    a, b = peers("a", "b")
    sending.send(sender(a), ["b", "B", " b "], "Once.")
    assert len(letters(b)) == 1


def test_order_per_pair_is_the_order_of_sending(peers):
    a, b = peers("a", "b")
    for n in range(10):
        sending.send(sender(a), "b", f"{n}")
    mail, _ = _take(b)
    assert [letter.response for letter in mail] == [str(n) for n in range(10)]


# The last ones look like `a` and `k`, or become one when written small: the letters a of Cyrillic, and the sign of Kelvin.
@pytest.mark.parametrize("name", ["nobody", "plannner", "", "a", "b\u200b", "b c", "x" * 5000, "\u0430", "\u212a"])
def test_unknown_recipients_are_an_error_at_once(peers, name):
    a, *_ = peers("a", "planner", "k")
    with pytest.raises(UnknownPeer) as error:
        sending.send(sender(a), name, "Hello.")
    assert len(str(error.value)) < 400
    assert not Message.objects.exists()
    assert not Item.objects.exists()


def test_a_retired_peer_is_gone_for_others_and_cannot_send(peers):
    """Case 30: an error at once, and no wait."""
    a, b = peers("a", "b")
    operator = UserFactory(may=["mesh.manage_mesh"])
    leaving.retire(operator, b.pk)
    for blocking in (False, True):
        with pytest.raises(UnknownPeer):
            sending.send(sender(a), "b", "Hello.", blocking=blocking)
        with pytest.raises(NotAPeer):
            sending.send(sender(b), "a", "Hello.", blocking=blocking)
    assert not Item.objects.exists()
    leaving.bring_back(operator, b.pk)
    sending.send(sender(a), "b", "Hello.")
    assert len(letters(b)) == 1


@pytest.mark.parametrize(("content", "error"), [("", BlankText), (" \u200b", BlankText), ("a\x00b", UnstorableText)])
def test_text_that_cannot_be_sent(peers, content, error):
    """Case 36."""
    a, _ = peers("a", "b")
    with pytest.raises(error):
        sending.send(sender(a), "b", content)
    assert not Message.objects.exists()


def test_only_ascii_addresses_unique_without_case(worker):
    """Case 34."""
    billing = public_peer("Billing")
    assert open_mailbox("billing", agent="worker") == billing.mailbox
    for name in ("Bil\u200bling", "\u0412illing"):
        with pytest.raises(BadAddress):
            open_mailbox(name, agent="worker")
    assert Mailbox.objects.count() == 1


def test_a_broadcast_reaches_all_that_it_may_reach_in_a_fixed_number_of_statements(peers):
    a, *_ = peers("a", "b", "c")
    public_peer("hidden", public=False)
    with CaptureQueriesContext(
        connection,
    ) as few:
        assert sending.broadcast(sender(a), "Lunch.").recipients == 2
    peers(*[f"p{n}" for n in range(40)])
    with CaptureQueriesContext(connection) as many:
        sent = sending.broadcast(sender(a), "Lunch again.")
    assert sent.recipients == 42
    wakes = ("agents_", "SAVEPOINT", "COMMIT", "BEGIN")
    writes = [[q["sql"] for q in queries if not any(word in q["sql"] for word in wakes)] for queries in (few, many)]
    assert len(writes[1]) <= len(writes[0])
    assert Delivery.objects.filter(message=sent.message, status="delivered").count() == 42
    (_, letter) = letters(public_peer("b"))
    assert (letter.tag, letter.response) == ("mesh:broadcast:from:a", "Lunch again.")


def test_a_broadcast_to_a_topic_or_to_those_with_a_capability(peers):
    a, b, c = peers("a", "b", "c")
    d = public_peer("d", capabilities=["roast"])
    Subscription.objects.create(peer=b, topic="stock")
    sending.broadcast(sender(a), "For the topic.", topic="stock")
    sending.broadcast(sender(a), "For the roasters.", capability="roast")
    assert [len(letters(peer)) for peer in (b, c, d)] == [1, 0, 1]
    with pytest.raises(NobodyToReach):
        sending.broadcast(sender(a), "For nobody.", topic="tides")


@pytest.mark.parametrize("given", [{"topic": "t" * 101}, {"capability": "c" * 101}])
def test_a_topic_or_capability_that_is_too_long_to_be_one(peers, given):
    a, *_ = peers("a", "b")
    for blocking in (False, True):
        with pytest.raises(TextTooLong):
            sending.broadcast(sender(a), "Hello.", blocking=blocking, **given)
    assert not Message.objects.exists()


@pytest.mark.parametrize("quorum", [0, 3, -1, "most", 1.5j])
def test_a_quorum_that_cannot_be(peers, quorum):
    a, *_ = peers("a", "b", "c")
    with pytest.raises(BadQuorum):
        sending.broadcast(sender(a), "Well?", blocking=True, quorum=quorum)
    assert not Item.objects.exists()


def test_a_reply_goes_to_the_original_sender(peers):
    """Case 35: also to a broadcast; and not to one's own message."""
    a, b, c = peers("a", "b", "c")
    sent = sending.broadcast(sender(a), "Well?").message
    sending.send(sender(b), [], "Fine.", in_reply_to=sent.pk)
    assert [letter.response for letter in letters(a)] == ["Fine."]
    assert not letters(b)[1:]
    assert not letters(c)[1:]
    with pytest.raises(NotAddressed):
        sending.send(sender(a), "b", "Me too.", in_reply_to=sent.pk)
    with pytest.raises(NotAddressed):
        sending.send(sender(b), "c", "Psst.", in_reply_to=sent.pk)


def test_others_neither_acknowledge_nor_reply(peers):
    """Case 33: to a third peer the message is as good as unknown, and the sender still waits."""
    a, _b, c = peers("a", "b", "c")
    message = sending.send(sender(a), "b", "Well?", blocking=True).message
    for act in (
        lambda: answering.acknowledge(c, message.pk, "I know!"),
        lambda: sending.send(sender(c), "a", "I know!", in_reply_to=message.pk),
    ):
        with pytest.raises(MessageNotFound):
            act()
    with pytest.raises(NotAddressed):
        answering.acknowledge(a, message.pk)
    assert wait_of(message).status == "pending"
    assert not Delivery.objects.exclude(acknowledged_at=None).exists()


def test_a_peer_that_writes_too_fast_is_told(peers, settings):
    settings.MESH_LIMITS = {"messages_per_minute": 3}
    a, b = peers("a", "b")
    for n in range(3):
        sending.send(sender(a), "b", f"{n}")
    with pytest.raises(TooFast):
        sending.send(sender(a), "b", "3")
    sending.send(sender(b), "a", "Slowly.")
    assert len(letters(b)) == 3


def test_mail_of_an_outside_peer_does_not_wake(worker):
    a = public_peer("a")
    outside = public_peer("erp", agent="")
    sending.send(sender(a), "erp", "An order.")
    sending.broadcast(sender(a), "All.")
    assert {(letter.wakes, letter.rung) for letter in letters(outside)} == {(False, True)}


def _take(peer):
    from django.db import transaction

    from inbox.services import reading

    with transaction.atomic():
        found = reading.take(peer.mailbox_id, 0, 0)
    assert all(fresh(Item.objects.get(pk=mail.id)).status == "consumed" for mail in found[0])
    return found


def test_a_list_of_recipients_is_all_or_nobody(peers):
    a, b, _ = peers("a", "b", "c")
    with pytest.raises(UnknownPeer):
        sending.send(sender(a), ["b", "nobody"], "Hello.")
    for names in ([], [f"p{n}" for n in range(101)]):
        with pytest.raises(NobodyToReach):
            sending.send(sender(a), names, "Hello.")
    assert not letters(b)
    sent = sending.send(sender(a), ["C", "b"], "Hello.")
    assert sent.recipients == 2
    assert sent.message.deliveries.count() == 2


@pytest.mark.parametrize("length", [1, 110, 200])
def test_a_long_or_odd_address_makes_a_tag_that_can_be_one(worker, length):
    """A tag holds 120 characters and no @ or +; what it names stands in full in the request."""
    from inbox.tags import check_tag

    address = ("a@b+c/" * 40)[:length]
    a, b = public_peer(address), public_peer("b")
    message = sending.send(sender(a), "b", "Hello.", blocking=True).message
    sending.broadcast(sender(a), "All.")
    answering.acknowledge(a, sending.send(sender(b), address, "Well?").message.pk, "Well.")
    sending.send(sender(b), address, "Yes.", in_reply_to=message.pk)
    for letter in (*letters(b), *letters(a)):
        assert check_tag(letter.tag, reserved=True) == letter.tag
    assert all(f"from {address}" in letter.request for letter in letters(b)[:2])
    assert f"by {address} of" in letters(b)[2].request
    assert wait_of(message).response == "Yes."


def test_a_send_and_a_broadcast_are_a_fixed_number_of_statements(peers):
    """On Postgres as many as bare inserts would be: lock, look, write."""
    a, *_ = peers("a", "b", "c")
    who = sender(peer_services.peer_of(a.mailbox_id))
    most = 3 if connection.vendor == "postgresql" else 4
    ours = ("mesh_", "inbox_")
    for act in (lambda: sending.send(who, ["b", "c"], "Hello."), lambda: sending.broadcast(who, "Hello.")):
        with CaptureQueriesContext(connection) as asked, transaction.atomic():
            act()
            made = [query["sql"] for query in asked if any(name in query["sql"] for name in ours)]
        assert len(made) <= most, made


def test_a_broken_send_leaves_nothing(peers, monkeypatch):
    """The message, its wait, its letters and deliveries are one transaction: a crash between any two statements leaves none."""
    a, b, _ = peers("a", "b", "c")
    asked = sending.send(sender(b), "a", "Well?", blocking=True).message
    before = _rows()
    counting = {"left": 0}

    def dying(execute, sql, params, many, context):
        if counting["left"] == 0:
            raise KeyboardInterrupt
        counting["left"] -= 1
        return execute(sql, params, many, context)

    acts = (
        lambda: sending.send(sender(a), ["b", "c"], "Hello.", blocking=True),
        lambda: sending.send(sender(a), "b", "Well.", in_reply_to=asked.pk, blocking=True),
        lambda: sending.broadcast(sender(a), "All.", blocking=True, quorum="all"),
        lambda: answering.acknowledge(a, asked.pk, "Taken."),
    )
    for act in acts:
        for statements in range(40):
            counting["left"] = statements
            try:
                with connection.execute_wrapper(dying), transaction.atomic():
                    act()
                    transaction.set_rollback(True)
            except KeyboardInterrupt:
                assert _rows() == before
                continue
            break
        assert statements > 2
    assert_sound()


def _rows():
    return [model.objects.count() for model in (Message, Delivery, Item)] + [
        Item.objects.filter(status="pending").count(),
        Delivery.objects.exclude(acknowledged_at=None).count(),
    ]


def test_a_hundred_letters_make_one_turn(peers, script):
    """Wakes are coalesced: a turn that is queued already will hear. It reads fifty at a time."""
    a, b = peers("a", "b")
    for n in range(60):
        sending.send(sender(a), "b", f"{n}")
    for peer in peers(*[f"p{n}" for n in range(40)]):
        sending.send(sender(peer), "b", "And I.")
    assert Turn.objects.count() == 1
    model = script()
    assert run_all() <= 2
    assert {letter.status for letter in letters(b)} == {"consumed"}
    assert len(letters(b)) == 100
    assert len(model.prompts) == 2


def test_a_broadcast_to_many_wakes_each_reader_once(peers, monkeypatch):
    """More than a caller has the time to wake are left to a worker, or to the sweep."""
    rung = []
    many_ready.connect(lambda **given: rung.append(1), dispatch_uid="test", weak=False)
    try:
        a, *others = peers("a", *[f"p{n}" for n in range(30)])
        for _ in range(3):
            sending.broadcast(sender(a), "All.")
    finally:
        many_ready.disconnect(dispatch_uid="test")
    assert len(rung) == 3
    assert not Turn.objects.exists()
    assert waking.wake_unrung() == 90
    assert Turn.objects.filter(status="queued").count() == len(others)
    assert run_all() == 30
