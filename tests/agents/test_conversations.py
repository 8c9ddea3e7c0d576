"""Opening, talking, closing; cancelling and retrying a turn."""

import threading

import pytest
from django.db import IntegrityError, transaction

from agents import tool
from agents.adapters.base import ModelError
from agents.errors import (
    ConversationClosed,
    ConversationNotFound,
    MailboxNotFound,
    NothingToCancel,
    NothingToRetry,
    UnknownAgent,
)
from agents.models import Conversation, Message, ToolCall, Turn
from agents.services import turns
from agents.services.conversations import cancel, close, open_conversation, open_for, retry, say
from inbox.errors import BadAddress, BlankText, TextTooLong, UnstorableText
from inbox.models import Mailbox
from tests.agents.kit import ask, assert_sound, calls, last_turn, open_turn, run_queued, transcript
from tests.agents.scripts import at, results, texts, use
from tests.factories import ConversationFactory, MailboxFactory, TurnFactory, UserFactory, backdate, fresh


# --- Opening
@pytest.fixture
def ada(db):
    return UserFactory(username="ada")


def test_a_conversation_opens_on_ones_own_mailbox(agent, ada):
    opened = open_for(ada, "tester", title="Beans")
    assert (opened.mailbox.address, opened.mailbox.owner, opened.agent) == ("tester/ada", ada, "tester")
    assert (opened.title, opened.status) == ("Beans", "open")
    assert open_for(ada, "tester").mailbox == opened.mailbox  # a second one on the same mailbox


@pytest.mark.parametrize("address", ["tester/ada", "TESTER/Ada", "tester/ada/kitchen", "tester/ada/a/b"])
def test_one_may_name_mailboxes_below_ones_own(agent, ada, address):
    assert open_for(ada, "tester", mailbox=address).mailbox.owner == ada


@pytest.mark.parametrize("address", ["planner", "tester/bob", "tester/adam", "tester", "other/ada", "tester/ad"])
def test_other_addresses_are_not_found(agent, ada, address):
    """Whether they exist or not: what is another's is as good as absent."""
    MailboxFactory(address="tester/bob", owner=UserFactory())
    with pytest.raises(MailboxNotFound):
        open_for(ada, "tester", mailbox=address)


def test_free_addresses_are_for_those_who_may(agent, ada):
    opened = open_for(ada, "tester", mailbox="planner", free_addresses=True)
    assert opened.mailbox.owner is None
    assert opened.owner == ada  # who opened it reads it
    bob = UserFactory()
    other = open_for(bob, "tester", mailbox="planner", free_addresses=True)
    assert (other.mailbox, other.owner) == (opened.mailbox, bob)
    MailboxFactory(address="tester/bob", owner=UserFactory())
    with pytest.raises(MailboxNotFound):
        open_for(ada, "tester", mailbox="tester/bob", free_addresses=True)


def test_a_name_that_is_no_address_gets_one(agent, db):
    for name in ("zoë", "a b", "..", "ada"):
        user = UserFactory(username=name)
        assert open_for(user, "tester").mailbox.owner == user
    twin = UserFactory(username="Ada")  # another user, where case is dropped
    assert open_for(twin, "tester").mailbox.owner == twin
    assert Mailbox.objects.count() == 5


def test_what_cannot_be_opened(agent, ada):
    with pytest.raises(UnknownAgent):
        open_for(ada, "nobody")
    with pytest.raises(BadAddress):
        open_for(ada, "tester", mailbox="tester/ada/küche")
    with pytest.raises(TextTooLong):
        open_for(ada, "tester", title="x" * 201)
    with pytest.raises(MailboxNotFound):
        open_conversation(0)
    assert not Conversation.objects.exists()


# --- Talking
def test_a_message_and_its_turn_are_one_transaction(conversation):
    message = say(conversation.pk, "Hello.")
    turn = open_turn(conversation)
    assert (message.place, message.turn_id, turn.status, fresh(conversation).rung) == (None, None, "queued", 1)
    say(conversation.pk, "And?")
    assert Turn.objects.count() == 1
    assert fresh(conversation).rung == 2


@pytest.mark.parametrize(("text", "error"), [("", BlankText), ("a\x00", UnstorableText), ("x" * 65_537, TextTooLong)])
def test_what_cannot_be_said_wakes_nobody(conversation, text, error):
    with pytest.raises(error):
        say(conversation.pk, text)
    assert (Message.objects.count(), Turn.objects.count(), fresh(conversation).rung) == (0, 0, 0)


def test_nobody_talks_where_nobody_listens(agent, db):
    closed = ConversationFactory(closed=True)
    with pytest.raises(ConversationClosed):
        say(closed.pk, "Hello?")
    with pytest.raises(ConversationNotFound):
        say(0, "Hello?")
    assert not Message.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_many_speakers_are_heard_in_the_order_of_their_ids(conversation, script, race):
    """A lower id never becomes visible later: what was received stands in the order of the ids."""
    script(rest="Heard.")
    silent = threading.Event()
    spoken = threading.Barrier(4, action=silent.set)

    def act(index):
        if index == 4:
            while not silent.is_set():
                run_queued(conversation)
            return
        for n in range(15):
            say(conversation.pk, f"{index}.{n}")
        spoken.wait(60)

    finish = race(5, act)
    assert not finish.errors
    run_queued(conversation)
    ids = list(Message.objects.filter(sender="user").order_by("place").values_list("pk", flat=True))
    assert len(ids) == 60
    assert ids == sorted(ids)
    assert_sound()


@pytest.mark.django_db(transaction=True)
def test_a_message_during_a_tool_is_read_at_the_next_boundary(conversation, declare, script):
    """Case 1: the tool works, the user writes; the history reads tool use, result, message; both are answered."""
    spoken = threading.Event()

    @tool
    def work() -> str:
        """Work for a while."""
        assert spoken.wait(10)
        return "Worked."

    declare(work)
    model = script(use("work"), "Both answered.")
    say(conversation.pk, "Work.")
    turn = open_turn(conversation)
    worker = threading.Thread(target=_start, args=(turn.pk,))
    worker.start()
    while not ToolCall.objects.filter(status="running").exists():
        assert worker.is_alive()
    say(conversation.pk, "hi")
    assert Message.objects.get(text="hi").place is None
    spoken.set()
    worker.join()
    last = model.prompts[-1]
    assert [message["role"] for message in last] == ["user", "assistant", "user"]
    assert [block.get("content") or block.get("text") for block in last[-1]["content"]] == ["Worked.", "hi"]
    assert transcript(conversation)[-1] == ("agent", "message", "Both answered.")
    assert open_turn(conversation) is None
    assert_sound()


def _start(turn):
    from django.db import connection

    turns.start(turn)
    connection.close()


# --- Closing
def test_closing_ends_the_open_turn_and_is_final(conversation):
    say(conversation.pk, "Hello.")
    closed = close(conversation.pk)
    assert (closed.status, bool(closed.closed_at)) == ("closed", True)
    assert (last_turn(conversation).status, last_turn(conversation).reason) == ("cancelled", "closed")
    assert close(conversation.pk).closed_at == closed.closed_at
    for act in (lambda: say(conversation.pk, "Hello?"), lambda: retry(conversation.pk)):
        with pytest.raises(ConversationClosed):
            act()
    with pytest.raises(NothingToCancel):
        cancel(conversation.pk)
    with pytest.raises(ConversationNotFound):
        close(0)
    assert_sound()


def test_a_turn_whose_conversation_closes_stops_and_has_no_successor(conversation, script):
    def meanwhile():
        say(conversation.pk, "More.")
        close(conversation.pk)

    script(at("Too late.", meanwhile))
    say(conversation.pk, "Hello.")
    assert turns.start(open_turn(conversation).pk) == "fenced"
    assert open_turn(conversation) is None
    assert transcript(conversation) == [("user", "message", "Hello.")]
    assert_sound()


def test_a_new_conversation_continues_on_the_same_mailbox(conversation, script):
    script()
    ask(conversation)
    close(conversation.pk)
    other = open_conversation(conversation.mailbox_id)
    assert ask(other) == "done"
    assert len(transcript(other)) == 2  # a history of its own


# --- Cancelling
def test_cancelling_a_queued_turn(conversation):
    """It was never claimed: none follows. Its message is read with the next one."""
    say(conversation.pk, "One.")
    cancelled = cancel(conversation.pk)
    assert (cancelled.status, cancelled.reason, cancelled.started_at) == ("cancelled", "cancelled", None)
    assert open_turn(conversation) is None
    assert turns.start(cancelled.pk) == "missed"
    assert ask(conversation, "Two.") == "done"
    assert [text for *_, text in transcript(conversation)] == ["One.", "Two.", "Done."]


def test_cancelling_in_the_middle_closes_the_calls(conversation, declare, script):
    """The one that runs may have happened; the others have not. The next prompt says so, and the conversation goes on."""
    declare(_cancelling(conversation), _never())
    script([use("stop_me", "a"), use("never", "b")])
    say(conversation.pk, "Go.")
    assert turns.start(open_turn(conversation).pk) == "fenced"
    assert [(name, status) for name, status, _ in calls(conversation)] == [("stop_me", "unknown"), ("never", "aborted")]
    model = script("I stopped.")
    assert ask(conversation, "Well?") == "done"
    told = results(model.prompts[0])
    assert [block["tool_use_id"] for block in told] == ["a", "b"]
    assert "unknown" in told[0]["content"]
    assert "not run" in told[1]["content"]
    assert all(block["is_error"] for block in told)
    assert_sound()


def _cancelling(conversation):
    @tool
    def stop_me() -> str:
        """Stop."""
        cancel(conversation.pk)
        return "Stopped."

    return stop_me


def _never():
    @tool
    def never() -> str:
        """Never runs."""
        raise AssertionError

    return never


@pytest.mark.parametrize("state", ["done", "failed", "cancelled", None])
def test_there_may_be_nothing_to_cancel(conversation, state):
    if state:
        TurnFactory(conversation=conversation, **{state: True})
    with pytest.raises(NothingToCancel):
        cancel(conversation.pk)
    with pytest.raises(ConversationNotFound):
        cancel(0)


def test_cancelling_a_turn_that_waits_for_its_model(conversation, script):
    """Put off, and cancelled before its time: what came meanwhile gets a turn at once, not after the wait."""
    script(ModelError("overloaded", retry_after=4000), "Here.")
    say(conversation.pk, "Hello.")
    assert run_queued(conversation) == ["put_off"]
    say(conversation.pk, "Still there?")
    cancel(conversation.pk)
    assert run_queued(conversation) == ["done"]
    assert [text for *_, text in transcript(conversation)] == ["Hello.", "Still there?", "Here."]


@pytest.mark.django_db(transaction=True)
def test_two_who_cancel_and_one_who_works(conversation, script, race):
    script(rest="Hi.")
    for n in range(15):
        say(conversation.pk, f"{n}")
        turn = open_turn(conversation)

        def act(index, turn=turn):
            return turns.start(turn.pk) if index == 0 else cancel(conversation.pk).pk

        finish = race(3, act)
        assert all(isinstance(error, NothingToCancel) for error in finish.errors)
        assert fresh(turn).status in ("done", "cancelled")
        run_queued(conversation)
        assert open_turn(conversation) is None
    assert_sound()


# --- Retrying
@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_a_turn_that_failed_is_tried_again(conversation, script, end):
    def fail():
        if end == "cancelled":
            cancel(conversation.pk)
        return ModelError("refusal")

    model = script(lambda messages: fail(), "Hi.")
    say(conversation.pk, "Hello.")
    run_queued(conversation)
    again = retry(conversation.pk)
    assert (again.status, again.pk) == ("queued", last_turn(conversation).pk)
    assert run_queued(conversation) == ["done"]
    assert "Hello." in texts(model.prompts[-1])
    assert transcript(conversation) == [("user", "message", "Hello."), ("agent", "message", "Hi.")]
    assert_sound()


@pytest.mark.parametrize("state", ["queued", "running", "waiting", "done", None])
def test_there_may_be_nothing_to_retry(conversation, state):
    if state:
        TurnFactory(conversation=conversation, **({} if state == "queued" else {state: True}))
    with pytest.raises(NothingToRetry):
        retry(conversation.pk)
    with pytest.raises(ConversationNotFound):
        retry(0)
    assert fresh(conversation).rung == 0


@pytest.mark.django_db(transaction=True)
def test_many_who_retry_make_one_turn(conversation, race):
    TurnFactory(conversation=conversation, failed=True)
    finish = race(6, lambda n: retry(conversation.pk).pk)
    assert [type(error) for error in finish.errors] == [NothingToRetry] * 5
    assert Turn.objects.filter(conversation=conversation, status="queued").count() == 1


def test_a_retry_reads_what_no_model_saw(conversation, script):
    """Mail that the failed turn had consumed is in the history, and unanswered."""
    from tests.factories import ItemFactory

    model = script(ModelError("refusal"), "Thanks.")
    ItemFactory(mailbox=conversation.mailbox, origin=conversation.pk, resolved=True)
    assert ask(conversation) == "failed"
    retry(conversation.pk)
    assert run_queued(conversation) == ["done"]
    assert texts(model.prompts[1]) == texts(model.prompts[0])


# --- What the database refuses
@pytest.mark.django_db
@pytest.mark.parametrize("wrong", [{"status": "closed"}, {"closed_at": "2026-12-01T00:00Z"}, {"status": "lost"}])
def test_a_conversation_of_another_shape_is_refused(wrong):
    conversation = ConversationFactory()
    with pytest.raises(IntegrityError), transaction.atomic():
        Conversation.objects.filter(pk=conversation.pk).update(**wrong)


def test_old_rows_are_no_matter(conversation, script):
    """Weeks may pass between two messages."""
    script("One.", "Two.")
    ask(conversation, "First.")
    backdate(last_turn(conversation), 30 * 86400, "created_at", "started_at", "finished_at", "not_before")
    assert ask(conversation, "Second.") == "done"
