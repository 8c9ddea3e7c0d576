"""Two at one wait at once: threads, a barrier, two hundred rounds; the wait ends once and nothing is lost or doubled."""

import random
import threading
import time

import pytest

from agents.models import ToolCall, Turn
from agents.services import conversations, turns, waking
from inbox.errors import AlreadyClosed
from inbox.models import Item
from inbox.services import items
from mesh.errors import NotAPeer, UnknownPeer
from mesh.models import Delivery, Message
from mesh.services import answering, leaving, sending
from tests.agents.kit import assert_sound
from tests.agents.scripts import texts, use
from tests.database import uncommitted
from tests.factories import UserFactory
from tests.mesh.kit import letters, run_all, sender

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
ROUNDS = 200


@pytest.fixture(autouse=True)
def unhurried(settings, monkeypatch):
    settings.MESH_LIMITS = {"messages_per_minute": 100_000}
    settings.INBOX_MAX_OPEN_ITEMS = 2 * ROUNDS  # all rounds are set up at once
    monkeypatch.setattr("inbox.services.items.announce", lambda mailboxes: None)


@pytest.fixture
def operator():
    return UserFactory(may=["mesh.manage_mesh"])


def both(race, rounds, left, right, between=lambda: None):
    """Let the two act on each round at the same moment, as nearly as threads can; `between` looks at what came of it."""
    start, end = threading.Barrier(2), threading.Barrier(2, action=between)

    def act(index):
        for one in rounds:
            start.wait(30)
            time.sleep(random.random() * 0.001)
            (left, right)[index](one)
            end.wait(30)

    finish = race(2, act)
    assert not finish.errors, finish.errors


def asked(peer):
    """A blocking message for each round."""
    return [sending.send(sender(peer), "b", "Well?", blocking=True).message for _ in range(ROUNDS)]


def waits(messages):
    """Their waits, as they are now: (outcome, response)."""
    found = Item.objects.filter(pk__in=[message.wait_id for message in messages])
    return list(found.values_list("outcome", "response"))


def test_two_acknowledgements_on_a_quorum_of_two(peers, race):
    a, b, c = peers("a", "b", "c")
    rounds = [sending.broadcast(sender(a), "Who?", blocking=True, quorum=2).message for _ in range(ROUNDS)]
    both(race, rounds, lambda m: answering.acknowledge(b, m.pk, "b"), lambda m: answering.acknowledge(c, m.pk, "c"))
    found = waits(rounds)
    assert {outcome for outcome, _ in found} == {"answered"}
    assert {response for _, response in found} <= {"b: b\nc: c", "c: c\nb: b"}
    assert not letters(a)


def test_an_acknowledgement_against_a_reply_of_the_same_peer(peers, race):
    """Each reply is read once: as the end of the wait, or as mail where the acknowledgement was first."""
    a, b = peers("a", "b")
    rounds = asked(a)
    both(
        race,
        rounds,
        lambda m: answering.acknowledge(b, m.pk, "Taken."),
        lambda m: sending.send(sender(b), "a", "The answer.", in_reply_to=m.pk),
    )
    found = [response for _, response in waits(rounds)]
    assert set(found) <= {"The answer.", "Taken."}
    assert [letter.response for letter in letters(a)] == ["The answer."] * found.count("Taken.")
    assert Delivery.objects.filter(recipient=a).count() == ROUNDS


def test_a_reply_against_the_deadline(peers, race):
    a, b = peers("a", "b")
    rounds = asked(a)

    def expire(message):
        Item.objects.filter(pk=message.wait_id).update(due_at="2020-01-01T00:00Z")
        items.expire_due()

    both(race, rounds, lambda m: sending.send(sender(b), "a", "The answer.", in_reply_to=m.pk), expire)
    found = waits(rounds)
    expired = sum(outcome == "expired" for outcome, _ in found)
    assert expired + sum(response == "The answer." for _, response in found) == ROUNDS
    assert [letter.response for letter in letters(a)] == ["The answer."] * expired


@pytest.mark.parametrize("other", ["the deadline", "staff"])
def test_an_acknowledgement_against_who_else_may_end_a_wait(peers, race, other):
    """The note is the answer, or comes as mail of its own: it is never between the two."""
    a, b = peers("a", "b")
    rounds = asked(a)

    def end(message):
        if other == "the deadline":
            Item.objects.filter(pk=message.wait_id).update(due_at="2020-01-01T00:00Z")
            items.expire_due()
            return
        try:
            items.resolve(message.wait_id, "By staff.", by="bob", via="admin")
        except AlreadyClosed:
            pass

    both(race, rounds, lambda m: answering.acknowledge(b, m.pk, "Taken."), end)
    found = [response for _, response in waits(rounds)]
    assert [letter.response for letter in letters(a)] == ["Taken."] * (ROUNDS - found.count("Taken."))


def test_acknowledgements_below_the_quorum_against_the_deadline(peers, race):
    a, b, _ = peers("a", "b", "c")
    rounds = [sending.broadcast(sender(a), "Who?", blocking=True, quorum=2).message for _ in range(ROUNDS)]

    def expire(message):
        Item.objects.filter(pk=message.wait_id).update(due_at="2020-01-01T00:00Z")
        items.expire_due()

    both(race, rounds, lambda m: answering.acknowledge(b, m.pk, "Taken."), expire)
    items.expire_due()  # those that were locked just then
    assert {outcome for outcome, _ in waits(rounds)} == {"expired"}
    said = [letter.response for letter in letters(a)]
    assert sorted(set(said)) in (["Taken.", "b: Taken."], ["Taken."], ["b: Taken."])
    assert len(said) == ROUNDS


def test_retiring_against_a_send(peers, race, operator):
    """Whatever was sent before the retirement is told of it; nothing waits for a peer that is gone."""
    a, b = peers("a", "b")
    sent = []

    def send(round_):
        try:
            sent.append(sending.send(sender(a), "b", f"{round_}?", blocking=True).message)
        except UnknownPeer:
            pass

    def between():
        assert not Item.objects.filter(status="pending").exists()
        leaving.bring_back(operator, b.pk)

    both(race, range(ROUNDS), send, lambda _: leaving.retire(operator, b.pk), between)
    assert Delivery.objects.count() == len(sent)
    assert {outcome for outcome, _ in waits(sent)} <= {"undeliverable"}


def test_retiring_against_an_acknowledgement(peers, race, operator):
    """One of the two ends the wait; the other's word is mail, or nothing."""
    a, b = peers("a", "b")
    ask = lambda: sending.send(sender(a), "b", "Well?", blocking=True).message  # noqa: E731
    rounds = [ask()]
    ends = []

    def between():
        ends.extend(outcome for outcome, _ in waits(rounds[-1:]))
        leaving.bring_back(operator, b.pk)
        rounds.append(ask())

    both(
        race,
        range(ROUNDS),
        lambda _: answering.acknowledge(b, rounds[-1].pk, "Taken."),
        lambda _: leaving.retire(operator, b.pk),
        between,
    )
    assert set(ends) <= {"answered", "undeliverable"}
    assert [letter.response for letter in letters(a)] == ["Taken."] * ends.count("undeliverable")


def test_a_sender_that_retires_while_it_sends(peers, race, operator):
    """It has sent before, or it is told that it is no peer; what it sent before is delivered, and its waits have ended."""
    a, b = peers("a", "b")
    refused = []

    def send(_):
        try:
            sending.send(sender(a), "b", "Hello.", blocking=True)
        except NotAPeer:
            refused.append(1)

    def between():
        assert not Item.objects.filter(status="pending").exists()
        leaving.bring_back(operator, a.pk)

    both(race, range(ROUNDS), send, lambda _: leaving.retire(operator, a.pk), between)
    assert len(letters(b)) == ROUNDS - len(refused)


def test_a_turn_that_is_cancelled_while_it_sends(peers, race, script):
    """The message and the call's row are one: both there, or neither."""
    a, b = peers("a", "b")
    talk = conversations.open_conversation(a.mailbox_id)

    def run(_):
        conversations.say(talk.pk, "Go on.")
        turns.start(Turn.objects.filter(conversation=talk, status="queued").latest("pk").pk)

    def stop(_):
        time.sleep(random.random() * 0.03)
        try:
            conversations.cancel(talk.pk)
        except conversations.NothingToCancel:
            pass

    say_it = lambda: script(use("glove_mesh_send_message", to="b", content="Hello."))  # noqa: E731
    say_it()
    both(race, range(50), run, stop, say_it)
    done = ToolCall.objects.filter(status="done").count()
    assert len(letters(b)) == Message.objects.count() == done
    assert not ToolCall.objects.filter(status="running").exists()
    assert_sound()


def test_two_that_ask_each_other_at_the_same_instant_are_told(peers, race):
    """The second of the two is told, and so is the first, by its letter."""
    a, b = peers("a", "b")
    told = []

    def ask(asker, other):
        told.append(sending.send(sender(asker), other, "Well?", blocking=True).mutual)

    def between():
        assert len(told) == 2
        assert told.count(None) == 1
        assert sum("while you wait" in letter.request for peer in (a, b) for letter in letters(peer)) == 1
        Item.objects.all().delete()
        told.clear()

    both(race, range(50), lambda _: ask(a, "b"), lambda _: ask(b, "a"), between)


def test_everyone_against_a_recipient_that_retires(peers, race, operator):
    """The last word and the last to leave, at once: the wait is met by the one that stays, and never stuck."""
    a, b, c = peers("a", "b", "c")
    ask = lambda: sending.broadcast(sender(a), "All?", blocking=True, quorum="all").message  # noqa: E731
    rounds = [ask()]

    def between():
        assert waits(rounds[-1:]) == [("answered", "b: Taken.\nc: left without an answer")]
        leaving.bring_back(operator, c.pk)
        rounds.append(ask())

    acknowledge = lambda _: answering.acknowledge(b, rounds[-1].pk, "Taken.")  # noqa: E731
    both(race, range(ROUNDS), acknowledge, lambda _: leaving.retire(operator, c.pk), between)


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


def test_a_peer_in_a_hurry_is_stopped_at_its_limit_from_many_threads(peers, race, settings):
    """The rate is counted under the sender's lock: no burst passes it."""
    settings.MESH_LIMITS = {"messages_per_minute": 10}
    a, b = peers("a", "b")

    def act(index):
        for n in range(6):
            try:
                sending.send(sender(a), "b", f"{index}:{n}")
            except sending.chains.TooFast:
                return

    race(6, act)
    assert len(letters(b)) == 10


@pytest.mark.postgres
def test_a_letter_that_commits_late_is_not_skipped(peers, script):
    """Its row has a lower number than one that was read already: who reads goes by what is unread, not by a number."""
    a, b, c = peers("a", "b", "c")
    with uncommitted(lambda: sending.send(sender(a), "c", "I was first.")):
        sending.send(sender(b), "c", "I was second.")
        model = script("Read.")
        waking.wake_unrung()
        assert run_all() == 1
        assert "I was second." in texts(model.prompts[-1])
    first, second = letters(c)
    assert first.response == "I was first."
    assert (first.status, second.status) == ("resolved", "consumed")
    assert waking.wake_unrung()
    assert run_all() == 1
    assert "I was first." in texts(model.prompts[-1])
    assert {letter.status for letter in letters(c)} == {"consumed"}
