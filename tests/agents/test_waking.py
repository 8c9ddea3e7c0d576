"""Waking is exact: what arrives while a turn ends is never lost, and what was read rings nobody again."""

import random
import threading
import time

import pytest

from agents import bell, registry
from agents.models import Conversation, Message, Turn
from agents.services import turns, waking
from agents.services.conversations import cancel, close, open_conversation, say
from agents.services.waking import wake, wake_unrung
from inbox import sweep
from inbox.models import Item
from inbox.services import items, letters
from tests.agents.kit import OPEN, ask, assert_sound, last_turn, open_turn, run_queued, transcript
from tests.agents.scripts import at
from tests.factories import ConversationFactory, ItemFactory, MailboxFactory, TurnFactory, fresh

LETTER = {"tag": "news", "request": "To you", "response": "It rains.", "by": "ada", "via": "api"}


def answered(conversation, **given):
    return ItemFactory(
        **{"mailbox": conversation.mailbox, "origin": conversation.pk, "resolved": True, "rung": False, **given}
    )


def queued_turns(conversation):
    return Turn.objects.filter(conversation=conversation, status="queued").count()


# --- Who is woken
def test_the_asker_is_woken(conversation):
    other = open_conversation(conversation.mailbox_id)
    item = answered(conversation)
    assert wake(conversation.mailbox_id) == 1
    assert (queued_turns(conversation), queued_turns(other)) == (1, 0)
    assert fresh(item).rung
    assert fresh(conversation).rung == 1


def test_mail_that_nobody_asked_for_wakes_the_latest_open_conversation(conversation):
    latest = open_conversation(conversation.mailbox_id)
    ConversationFactory(mailbox=conversation.mailbox, closed=True)
    answered(conversation, origin=None)
    assert wake(conversation.mailbox_id) == 1
    assert (queued_turns(conversation), queued_turns(latest)) == (0, 1)


def test_mail_for_a_mailbox_without_a_conversation_opens_one(agent, db):
    """So a peer that nobody ever spoke to can be written to."""
    mailbox = MailboxFactory()
    letters.drop(mailbox.pk, **LETTER)
    assert wake(mailbox.pk) == 1
    opened = Conversation.objects.get(mailbox=mailbox)
    assert (opened.agent, opened.status, queued_turns(opened)) == ("tester", "open", 1)
    assert run_queued(opened) == ["done"]
    assert fresh(Item.objects.get()).status == "consumed"


@pytest.mark.django_db(transaction=True)
def test_many_letters_at_once_open_one_conversation(agent, race):
    mailbox = MailboxFactory()
    finish = race(8, lambda n: letters.drop(mailbox.pk, **LETTER))
    assert not finish.errors
    opened = Conversation.objects.get(mailbox=mailbox)
    assert queued_turns(opened) == 1
    assert not Item.objects.filter(rung=False).exists()
    run_queued(opened)
    assert Message.objects.filter(conversation=opened, kind="inbox").count() == 8


def test_several_answers_of_one_reader_are_one_wake(conversation):
    for _ in range(5):
        answered(conversation)
    assert wake(conversation.mailbox_id) == 5
    assert (fresh(conversation).rung, queued_turns(conversation)) == (1, 1)


@pytest.mark.parametrize("state", [None, "running", "waiting"])
def test_an_open_turn_hears_and_gets_no_rival(conversation, state):
    TurnFactory(conversation=conversation, **({state: True} if state else {}))
    answered(conversation)
    assert wake(conversation.mailbox_id) == 1
    assert Turn.objects.filter(conversation=conversation).count() == 1
    assert fresh(conversation).rung == 1


def test_a_second_wake_changes_nothing(conversation):
    """Promise 28: rung three times."""
    answered(conversation)
    assert [wake(conversation.mailbox_id) for _ in range(3)] == [1, 0, 0]
    assert fresh(conversation).rung == 1


@pytest.mark.parametrize("state", ["pending", "consumed", "withdrawn"])
def test_only_answers_wake(conversation, state):
    ItemFactory(mailbox=conversation.mailbox, origin=conversation.pk, **({} if state == "pending" else {state: True}))
    assert wake(conversation.mailbox_id) == 0
    assert fresh(conversation).rung == 0


def test_quiet_mail_waits_for_the_next_turn(conversation, script):
    """`wakes` false: read, but not a reason to run."""
    item = letters.drop(conversation.mailbox_id, **LETTER, wakes=False)
    assert wake(conversation.mailbox_id) == 0
    assert wake_unrung() == 0
    assert open_turn(conversation) is None
    ask(conversation)
    assert fresh(item).status == "consumed"


# --- The sweep finds what a lost signal would have woken
def test_a_wake_that_was_lost_is_found(conversation):
    answered(conversation)
    assert wake_unrung() == 1
    assert queued_turns(conversation) == 1
    assert wake_unrung() == 0


def test_mail_of_an_agent_that_is_gone_is_kept_for_its_return(conversation, declare):
    """Weeks may pass: neither the signal nor the sweep uses the wake up while nobody could answer."""
    item, other = answered(conversation), answered(conversation, origin=None, mailbox=MailboxFactory())
    declared = dict(registry.agents)
    registry.agents.clear()
    for mailbox in (item.mailbox_id, other.mailbox_id):
        wake(mailbox)
    wake_unrung()
    registry.agents.update(declared)
    assert wake_unrung() == 2
    assert run_queued(conversation) == ["done"]
    assert fresh(item).status == "consumed"


@pytest.mark.django_db(transaction=True)
def test_everything_is_done_by_the_sweep_when_no_doorbell_rings(conversation, script, monkeypatch):
    """Promise 28, case 46: no signal, no bell; the passes alone carry a question to its answer."""

    monkeypatch.setattr(bell, "ring", lambda *args, **kwargs: False)
    monkeypatch.setattr("agents.sweep.slots.run", lambda turn: turns.start(turn))
    script("Hi.", "Thanks.")
    say(conversation.pk, "Hello.")
    sweep.run_pass()
    assert transcript(conversation)[-1][2] == "Hi."
    item = answered(conversation)
    sweep.run_pass()
    assert fresh(item).status == "consumed"
    assert transcript(conversation)[-1][2] == "Thanks."
    assert_sound()


# --- While a turn ends
def test_what_comes_while_the_last_reply_is_made_gets_a_turn_of_its_own(conversation, script):
    script(at("Bye.", lambda: say(conversation.pk, "Wait!")), "Yes?")
    say(conversation.pk, "Hello.")
    assert run_queued(conversation) == ["done", "done"]
    assert [text for *_, text in transcript(conversation)] == ["Hello.", "Bye.", "Wait!", "Yes?"]
    assert_sound()


@pytest.mark.parametrize("what", ["mail", "message"])
def test_a_failed_turn_is_followed_only_by_what_it_did_not_hear(conversation, script, what):
    from agents.adapters.base import ModelError

    def arrive():
        if what == "mail":
            answered(conversation)
            wake(conversation.mailbox_id)
        else:
            say(conversation.pk, "Wait!")

    script(at(ModelError("refusal"), arrive), ModelError("refusal"))
    say(conversation.pk, "Hello.")
    assert run_queued(conversation) == ["failed", "failed"]  # the second heard all there was: no third
    assert open_turn(conversation) is None
    assert not Item.objects.filter(status="resolved").exists()


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_nothing_that_arrives_while_turns_end_is_lost(conversation, script, race):
    """Promises 3 and 9 and the heart of waking: speakers and resolvers against a worker, in many rounds, each ending somewhere
    in the other's transaction. All is read, once, in order, and nothing is left open."""
    script(rest="Heard.")
    talk, rounds = conversation, 60
    requests = [ItemFactory(mailbox=talk.mailbox, origin=talk.pk) for _ in range(rounds)]
    talking = threading.Event()

    def speak():
        for n in range(rounds):
            say(talk.pk, f"Number {n}.")
            time.sleep(random.random() * 0.01)
        talking.set()

    def resolve():
        for item in requests:
            items.resolve(item.pk, "Yes.", by="bob", via="admin")
            time.sleep(random.random() * 0.01)

    def work():
        while not talking.is_set() or Turn.objects.filter(conversation=talk, status__in=OPEN).exists():
            for pk in Turn.objects.filter(conversation=talk, status="queued").values_list("pk", flat=True):
                turns.start(pk)

    finish = race(4, lambda n: [speak, resolve, work, work][n]())
    assert not finish.errors
    work()
    spoken = [text for _, kind, text in transcript(talk) if kind == "message" and text != "Heard."]
    assert spoken == [f"Number {n}." for n in range(rounds)]
    assert sum(kind == "inbox" for _, kind, _ in transcript(talk)) == rounds
    assert not Item.objects.exclude(status="consumed").exists()
    assert (last_turn(talk).status, last_turn(talk).heard) == ("done", fresh(talk).rung)
    assert_sound()


@pytest.mark.django_db(transaction=True)
def test_a_message_and_the_end_of_a_turn_at_the_same_moment(conversation, script, race):
    """Many rounds of exactly two: whoever commits first, the message is read."""
    script(rest="Heard.")
    for n in range(25):
        say(conversation.pk, f"Question {n}.")
        turn = open_turn(conversation)
        finish = race(
            2, lambda index, n=n, turn=turn: say(conversation.pk, f"More {n}.") if index else turns.start(turn.pk)
        )
        assert not finish.errors
        run_queued(conversation)
        assert not Message.objects.filter(place=None).exists()
        assert open_turn(conversation) is None
    assert_sound()


# --- Closing
def test_mail_of_a_closed_conversation_is_the_mailboxs(conversation, script, django_capture_on_commit_callbacks):
    """Case 25: answered after its conversation was closed; it comes on the mailbox's next turn anywhere."""
    pending = ItemFactory(mailbox=conversation.mailbox, origin=conversation.pk)
    close(conversation.pk)
    assert fresh(pending).origin is None
    items.resolve(pending.pk, "Since noon.", by="bob", via="admin")
    other = open_conversation(conversation.mailbox_id)
    wake(conversation.mailbox_id)
    assert run_queued(other) == ["done"]
    assert fresh(pending).status == "consumed"
    assert "Since noon." in transcript(other)[0][2]


def test_unread_mail_of_a_closed_conversation_wakes_the_mailbox(conversation, django_capture_on_commit_callbacks):
    other = open_conversation(conversation.mailbox_id)
    item = answered(conversation, rung=True)
    with django_capture_on_commit_callbacks(execute=True):
        close(conversation.pk)
    assert (fresh(item).rung, queued_turns(other)) == (True, 1)


@pytest.mark.parametrize("others", [True, False], ids=["another", "none"])
def test_mail_that_a_closed_conversation_was_to_read_finds_another_reader(
    conversation, script, others, django_capture_on_commit_callbacks
):
    """Nobody's mail rang for it, and it closed before it looked: the ring is not used up."""
    latest = ConversationFactory(mailbox=conversation.mailbox)
    letters.drop(conversation.mailbox_id, **LETTER)
    assert wake(conversation.mailbox_id) == 1
    assert queued_turns(latest) == 1
    with django_capture_on_commit_callbacks(execute=True):
        if not others:
            close(conversation.pk)
        close(latest.pk)
    reader = Conversation.objects.get(mailbox=conversation.mailbox, status="open")
    assert run_queued(reader) == ["done"]
    assert Item.objects.get().status == "consumed"
    assert_sound()


@pytest.mark.django_db(transaction=True)
def test_a_request_that_is_posted_while_its_conversation_closes_is_not_orphaned(agent, script, race):
    """A tool outside of a transaction may post at any moment; whoever is first, somebody reads the answer."""
    from agents.stores.database import DatabaseStore

    for n in range(20):
        mailbox = MailboxFactory()
        talk = ConversationFactory(mailbox=mailbox)
        store = DatabaseStore(talk)

        def act(index, talk=talk, store=store, n=n):
            if index:
                time.sleep(random.random() * 0.003)
                store.add_inbox_item(tag="a", request=f"{n}?")
            else:
                time.sleep(random.random() * 0.003)
                close(talk.pk)

        assert not race(2, act).errors
        item = Item.objects.get(mailbox=mailbox)
        assert item.origin is None
        items.resolve(item.pk, "Yes.", by="bob", via="admin")
        reader = Conversation.objects.get(mailbox=mailbox, status="open")
        assert run_queued(reader) == ["done"]
    assert not Item.objects.exclude(status="consumed").exists()
    assert_sound()


# --- Cancelling
def test_a_turn_that_was_never_claimed_leaves_no_successor(conversation):
    say(conversation.pk, "Hello.")
    cancel(conversation.pk)
    assert open_turn(conversation) is None


def test_a_running_turn_that_is_cancelled_is_followed_by_what_it_did_not_hear(conversation, script):
    def meanwhile():
        say(conversation.pk, "Stop that.")
        cancel(conversation.pk)

    script(at("Too late.", meanwhile), "Stopped.")
    say(conversation.pk, "Go.")
    assert turns.start(open_turn(conversation).pk) == "fenced"
    assert run_queued(conversation) == ["done"]
    assert [text for *_, text in transcript(conversation)] == ["Go.", "Stop that.", "Stopped."]


def test_what_a_cancelled_turn_heard_waits_for_the_next_ring(conversation, script):
    model = script(at("Too late.", lambda: cancel(conversation.pk)), "Both.")
    say(conversation.pk, "One.")
    assert turns.start(open_turn(conversation).pk) == "fenced"
    assert open_turn(conversation) is None
    say(conversation.pk, "Two.")
    assert run_queued(conversation) == ["done"]
    assert "One." in model.said_last
    assert "Two." in model.said_last


# --- Bells
@pytest.mark.django_db(transaction=True)
def test_a_bell_is_rung_after_commit_for_a_new_turn_only(conversation, monkeypatch):
    rung = []
    monkeypatch.setattr(
        bell, "ring", lambda turn, countdown=0.0: rung.append((turn, Turn.objects.filter(pk=turn).exists())) or True
    )
    say(conversation.pk, "One.")
    say(conversation.pk, "Two.")
    turn = open_turn(conversation)
    assert rung == [(turn.pk, True)]
    item = ItemFactory(mailbox=conversation.mailbox, origin=conversation.pk)
    items.resolve(item.pk, "Yes.", by="bob", via="admin")
    assert len(rung) == 1


@pytest.mark.django_db(transaction=True)
def test_a_bell_that_fails_fails_nobody(conversation, monkeypatch):
    def broken(*args, **kwargs):
        raise ConnectionError

    monkeypatch.setattr(bell, "ring", broken)
    say(conversation.pk, "Hello.")
    assert open_turn(conversation)


@pytest.mark.django_db(transaction=True)
def test_a_wake_that_fails_fails_no_resolver(conversation, monkeypatch):
    def broken(mailbox_id):
        raise RuntimeError

    monkeypatch.setattr(waking, "wake", broken)
    item = ItemFactory(mailbox=conversation.mailbox, origin=conversation.pk)
    items.resolve(item.pk, "Yes.", by="bob", via="admin")
    assert (fresh(item).status, fresh(item).rung) == ("resolved", False)
    monkeypatch.undo()
    assert wake_unrung() == 1
