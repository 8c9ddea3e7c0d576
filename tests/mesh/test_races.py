"""Two at one wait at once: threads, a barrier, many rounds; the wait ends once and nothing is lost or doubled."""

import random
import threading
import time

import pytest

from inbox.models import Item
from inbox.services import items
from mesh.errors import NotAPeer, UnknownPeer
from mesh.models import Delivery
from mesh.services import answering, leaving, sending
from tests.factories import UserFactory, backdate
from tests.mesh.kit import letters, sender, wait_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
ROUNDS = 200


@pytest.fixture(autouse=True)
def unhurried(settings, monkeypatch):
    settings.MESH_LIMITS = {"messages_per_minute": 100_000}
    monkeypatch.setattr("agents.services.waking.wake", lambda mailbox_id: 0)


def both(race, rounds, left, right):
    """Let the two act on each round at the same moment, as nearly as threads can."""
    together = threading.Barrier(2)

    def act(index):
        for one in rounds:
            together.wait(30)
            time.sleep(random.random() * 0.002)
            (left, right)[index](one)

    finish = race(2, act)
    assert not finish.errors, finish.errors


def test_two_acknowledgements_on_a_quorum_of_two(peers, race):
    a, b, c = peers("a", "b", "c")

    def begin():
        return sending.broadcast(sender(a), "Who?", blocking=True, quorum=2).message

    done = 0
    while done < ROUNDS:
        rounds = [begin() for _ in range(20)]
        both(race, rounds, lambda m: answering.acknowledge(b, m.pk, "b"), lambda m: answering.acknowledge(c, m.pk, "c"))
        assert {wait_of(message).outcome for message in rounds} == {"answered"}
        assert not letters(a)
        _consume(a)
        done += len(rounds)


def test_an_acknowledgement_against_a_reply_of_the_same_peer(peers, race):
    a, b = peers("a", "b")
    done = 0
    while done < ROUNDS:
        rounds = [sending.send(sender(a), "b", "Well?", blocking=True).message for _ in range(20)]
        both(
            race,
            rounds,
            lambda m: answering.acknowledge(b, m.pk, "Taken."),
            lambda m: sending.send(sender(b), "a", "The answer.", in_reply_to=m.pk),
        )
        mail = len(letters(a, "resolved"))
        by_reply = sum(wait_of(message).response == "The answer." for message in rounds)
        by_ack = sum(wait_of(message).response == "Taken." for message in rounds)
        # Each reply is read once: as the end of the wait, or as mail where the acknowledgement was first.
        assert by_reply + by_ack == len(rounds)
        assert mail == by_ack
        _consume(a)
        done += len(rounds)


def test_a_reply_against_the_deadline(peers, race):
    a, b = peers("a", "b")
    done = 0
    while done < ROUNDS:
        rounds = [sending.send(sender(a), "b", "Well?", blocking=True).message for _ in range(20)]

        def expire(message):
            backdate(wait_of(message), 1, "due_at")
            items.expire_due()

        both(race, rounds, lambda m: sending.send(sender(b), "a", "The answer.", in_reply_to=m.pk), expire)
        expired = sum(wait_of(message).outcome == "expired" for message in rounds)
        answered = sum(wait_of(message).response == "The answer." for message in rounds)
        assert expired + answered == len(rounds)
        assert len(letters(a, "resolved")) == expired
        _consume(a)
        done += len(rounds)


def test_retiring_against_a_send(peers, race):
    a, b = peers("a", "b")
    operator = UserFactory(may=["mesh.manage_mesh"])
    sent = []

    def send(round_):
        try:
            sent.append(sending.send(sender(a), "b", f"{round_}?", blocking=True).message)
        except UnknownPeer:
            pass

    for batch in range(ROUNDS // 10):
        for round_ in range(10):
            both(race, [round_], send, lambda _: leaving.retire(operator, b.pk))
            # Whatever was sent before the retirement is told of it; nothing waits for a peer that is gone.
            assert not Item.objects.filter(status="pending").exists(), (batch, round_)
            leaving.bring_back(operator, b.pk)
        _consume(a)
        _consume(b)
    assert Delivery.objects.count() == len(sent)


def test_sends_of_one_peer_from_many_threads_keep_their_order(peers, race):
    a, b = peers("a", "b")

    def act(index):
        for n in range(10):
            sending.send(sender(a), "b", f"{index}:{n}")

    finish = race(4, act)
    assert not finish.errors
    by_thread = {index: [] for index in range(4)}
    for letter in sorted(letters(b), key=lambda letter: (letter.resolved_at, letter.pk)):
        index, _, n = letter.response.partition(":")
        by_thread[int(index)].append(int(n))
    assert all(order == list(range(10)) for order in by_thread.values())


def test_retired_while_it_sends(peers, race):
    a, _b = peers("a", "b")
    operator = UserFactory(may=["mesh.manage_mesh"])
    for _ in range(20):

        def send(round_):
            try:
                sending.send(sender(a), "b", "Hello.")
            except NotAPeer:
                pass

        both(race, [0], send, lambda _: leaving.retire(operator, a.pk))
        leaving.bring_back(operator, a.pk)


def _consume(peer):
    """As its reader would."""
    from django.db import transaction

    from inbox.services import reading

    with transaction.atomic():
        while reading.take(peer.mailbox_id, 0, 0)[0]:
            pass
