"""Receiving: messages in order, mail once, consumed with the history; caps; what is left comes at the next boundary."""

import pytest

from agents import tool
from agents.models import Message, Turn
from agents.services import hot
from agents.services.conversations import open_conversation, say
from agents.services.waking import wake
from inbox.models import Item
from inbox.services import items
from tests.agents.kit import ask, assert_sound, last_turn, open_turn, run_queued, transcript
from tests.agents.scripts import at, texts, use
from tests.factories import ItemFactory, backdate, fresh

LEASE_S = 30


def answer(conversation, text="Since noon.", **given):
    """A request of this conversation, answered; its wake not yet done."""
    given = {"mailbox": conversation.mailbox, "origin": conversation.pk, **given}
    item = ItemFactory(**given)
    items.resolve(item.pk, text, by="bob", via="admin")
    return item


def receive(conversation):
    """Claim and receive by hand; what is to be answered."""
    turn = open_turn(conversation)
    claim = hot.claim(turn.pk, LEASE_S)
    return claim, hot.receive(claim, LEASE_S, conversation.mailbox_id)


def places(conversation):
    return list(Message.objects.filter(conversation=conversation).order_by("pk").values_list("place", flat=True))


def test_a_message_has_no_place_before_it_is_received(conversation):
    for text in ("One.", "Two."):
        say(conversation.pk, text)
    assert places(conversation) == [None, None]
    claim, received = receive(conversation)
    assert places(conversation) == [1, 2]
    assert [entry.text for entry in received.history.entries] == ["One.", "Two."]
    assert received.place == 2
    assert set(Message.objects.values_list("turn_id", flat=True)) == {claim.turn}


def test_mail_is_placed_and_consumed_in_one_step(conversation):
    say(conversation.pk, "Hello.")
    item = answer(conversation)
    claim, received = receive(conversation)
    assert [(entry.sender, entry.kind) for entry in received.history.entries] == [
        ("user", "message"),
        ("user", "inbox"),
    ]
    item = fresh(item)
    letter = Message.objects.get(item=item)
    assert (item.status, item.consumed_in, item.rung) == ("consumed", claim.turn, True)
    assert (letter.place, letter.turn_id) == (2, claim.turn)
    assert "Since noon." in letter.text


def test_each_reply_stands_with_its_own_request_in_the_order_of_resolving(conversation, script):
    """Case 21: one turn posts three blocking requests; the third is answered first."""
    three = [use("glove_post_to_inbox", tag=f"ask:{n}", request=f"Number {n}?", blocking=True) for n in range(3)]
    script(three, "Waiting.", "Thanks.")
    ask(conversation, "Ask three things.")
    posted = list(Item.objects.order_by("pk"))
    for index in (2, 0, 1):
        items.resolve(posted[index].pk, f"Answer {index}.", by="bob", via="admin")
    wake(conversation.mailbox_id)
    assert run_queued(conversation) == ["done"]
    letters = [text for _, kind, text in transcript(conversation) if kind == "inbox"]
    for index, text in zip((2, 0, 1), letters, strict=True):
        assert f"Number {index}?" in text
        assert f"Answer {index}." in text
    assert_sound()


def test_two_turns_read_each_item_once(conversation, script):
    """Promise 3: ownerless mail that two conversations of one mailbox would read."""
    script()
    other = open_conversation(conversation.mailbox_id)
    for _ in range(5):
        answer(conversation, origin=None)
    for one in (conversation, other):
        say(one.pk, "Any news?")
    for one in (conversation, other):
        assert run_queued(one) == ["done"]
    read = Message.objects.filter(kind="inbox").values_list("conversation_id", flat=True)
    assert list(read) == [conversation.pk] * 5
    assert_sound()


@pytest.mark.django_db(transaction=True)
def test_turns_that_read_one_mailbox_at_once(conversation, script, race):
    """Each item enters one transcript, once, whoever is faster."""
    script()
    talks = [conversation, *(open_conversation(conversation.mailbox_id) for _ in range(3))]
    for _ in range(40):
        ItemFactory(mailbox=conversation.mailbox, resolved=True)
    for talk in talks:
        say(talk.pk, "Any news?")
    finish = race(4, lambda n: run_queued(talks[n]))
    assert not finish.errors
    assert Message.objects.filter(kind="inbox").count() == 40
    assert Item.objects.filter(status="consumed").count() == 40
    assert_sound()


def test_a_conversation_reads_what_it_asked_and_what_nobody_did(conversation, script):
    script()
    other = open_conversation(conversation.mailbox_id)
    mine, nobodys, others = answer(conversation), answer(conversation, origin=None), answer(other)
    ask(conversation)
    assert [fresh(item).status for item in (mine, nobodys, others)] == ["consumed", "consumed", "resolved"]


def test_what_stays_unread_for_lack_of_an_answer(conversation, script):
    """Pending items, and those of other mailboxes, are nobody's to read."""
    script()
    pending, elsewhere = ItemFactory(mailbox=conversation.mailbox), ItemFactory(resolved=True)
    ask(conversation)
    assert [fresh(item).status for item in (pending, elsewhere)] == ["pending", "resolved"]


# --- Caps
def test_at_most_fifty_letters_then_the_rest(conversation, script):
    """A plain reply leaves the rest for a turn of its own, without anybody ringing."""
    model = script("Read fifty.", "Read the rest.")
    for _ in range(60):
        answer(conversation)
    say(conversation.pk, "What news?")
    assert run_queued(conversation) == ["done", "done"]
    assert [texts(prompt).count("[[end of mail") for prompt in model.prompts] == [50, 60]
    assert not Item.objects.filter(status="resolved").exists()
    assert open_turn(conversation) is None
    assert_sound()


def test_the_rest_comes_at_the_next_boundary_of_the_same_turn(conversation, declare, script):
    declare(_look())
    model = script(use("look"), "Read all.")
    for _ in range(60):
        answer(conversation)
    assert ask(conversation) == "done"
    assert [texts(prompt).count("[[end of mail") for prompt in model.prompts] == [50, 60]
    assert run_queued(conversation) == []
    assert Turn.objects.count() == 1


def _look():
    @tool
    def look() -> str:
        """Look."""
        return "Seen."

    return look


def test_at_most_a_hundred_kilobytes_then_the_rest(conversation, script):
    script()
    for _ in range(3):
        answer(conversation, "x" * 60_000)
    say(conversation.pk, "What news?")
    _, received = receive(conversation)
    assert sum(entry.kind == "inbox" for entry in received.history.entries) == 1
    assert last_turn(conversation).heard == -1


def test_at_most_fifty_messages_then_the_rest(conversation, script):
    model = script("Fifty.", "And the rest.")
    for n in range(55):
        say(conversation.pk, f"Number {n}.")
    assert run_queued(conversation) == ["done", "done"]
    assert [texts(prompt).count("Number") for prompt in model.prompts] == [50, 55]
    spoken = [text for sender, _, text in transcript(conversation) if sender == "user"]
    assert spoken == [f"Number {n}." for n in range(55)]
    assert_sound()


@pytest.mark.parametrize("letter", ["x", "\N{SNOWMAN}"])
def test_at_most_a_hundred_kilobytes_of_messages_then_the_rest(conversation, script, letter):
    """Fifty messages of 64 kB would be more than any model reads, and be lost to it in a summary."""
    model = script("One.", "Two.", "Three.")
    said = [f"{n} {letter * (60_000 // len(letter.encode()))}" for n in range(3)]
    for text in said:
        say(conversation.pk, text)
    assert run_queued(conversation) == ["done", "done", "done"]
    assert [sum(text in texts(prompt) for text in said) for prompt in model.prompts] == [1, 2, 3]
    assert [text for sender, _, text in transcript(conversation) if sender == "user"] == said
    assert_sound()


def test_exactly_fifty_leave_nothing(conversation, script):
    script()
    for n in range(50):
        say(conversation.pk, f"Number {n}.")
        answer(conversation)
    assert run_queued(conversation) == ["done"]
    assert not Item.objects.filter(status="resolved").exists()


# --- Nothing new
def test_a_turn_that_finds_nothing_new_ends_without_the_model(conversation, script):
    """Two wakes, and the first turn has read it all."""
    model = script("Hi.")
    ask(conversation)
    item = answer(conversation)
    wake(conversation.mailbox_id)
    Item.objects.filter(pk=item.pk).update(status="consumed", consumed_at=fresh(item).resolved_at)
    before = transcript(conversation)
    assert run_queued(conversation) == ["done"]
    assert len(model.prompts) == 1
    assert transcript(conversation) == before
    assert last_turn(conversation).model_calls == 0


def test_what_a_failed_turn_left_unanswered_is_news_for_the_next(conversation, script):
    from agents.adapters.base import ModelError

    script(ModelError("refusal"))
    item = answer(conversation)
    assert ask(conversation) == "failed"
    assert fresh(item).status == "consumed"
    model = script("Hi.")
    say(conversation.pk, "Well?")
    assert run_queued(conversation) == ["done"]
    for part in ("Hello.", "Since noon.", "Well?"):
        assert part in texts(model.prompts[0])


# --- A crash
def test_a_crash_after_receiving_reads_nothing_twice(conversation, script):
    """Case 8 in small: the worker dies after the receive; the next finds all of it in the history."""
    model = script()
    say(conversation.pk, "Hello.")
    three = [answer(conversation) for _ in range(3)]
    claim, _ = receive(conversation)
    backdate(Turn.objects.get(pk=claim.turn), 1, "lease_until")
    run_queued(conversation)
    from agents.services import turns

    assert turns.start(claim.turn) == "done"
    assert texts(model.prompts[0]).count("[[end of mail") == 3
    assert Message.objects.filter(kind="inbox").count() == len(three)
    assert_sound()


def test_a_fault_in_the_middle_of_receiving_takes_it_all_back(conversation, script, monkeypatch):
    """Case 8: between appending and consuming. Nothing of either stands."""
    say(conversation.pk, "Hello.")
    item = answer(conversation)
    claim = hot.claim(open_turn(conversation).pk, LEASE_S)

    def broken(letters, place, claim):
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(hot, "_insert_letters", broken)
        with pytest.raises(RuntimeError):
            hot.receive(claim, LEASE_S, conversation.mailbox_id)
    assert (fresh(item).status, places(conversation)) == ("resolved", [None])
    hot.receive(claim, LEASE_S, conversation.mailbox_id)
    assert (fresh(item).status, places(conversation)) == ("consumed", [1, 2])


def test_what_comes_while_the_model_thinks_waits_for_the_boundary(conversation, declare, script):
    """Case 1: tool use, its result, then what was written meanwhile; both are answered."""
    declare(_look())
    model = script(at(use("look"), lambda: say(conversation.pk, "Hi, me again.")), "Both answered.")
    assert ask(conversation) == "done"
    last = model.prompts[-1]
    assert [message["role"] for message in last] == ["user", "assistant", "user"]
    assert [block["type"] for block in last[-1]["content"]] == ["tool_result", "text"]
    assert last[-1]["content"][1]["text"] == "Hi, me again."
    assert run_queued(conversation) == []
    assert_sound()


def test_the_order_of_what_was_said_is_the_order_of_the_prompt(conversation, script):
    script("One.", "Two.")
    ask(conversation, "First.")
    answer(conversation, origin=None)
    ask(conversation, "Second.")
    kinds = [(sender, kind) for sender, kind, _ in transcript(conversation)]
    assert kinds == [
        ("user", "message"),
        ("agent", "message"),
        ("user", "message"),
        ("user", "inbox"),
        ("agent", "message"),
    ]
