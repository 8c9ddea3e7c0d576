"""What becomes known of a call after its turn went on without it: kept on the call, and told to the agent once, as mail. A worker
slept, a turn was cancelled, a database was away."""

import threading

import pytest
from django.db import OperationalError

from agents import tool
from agents.errors import CallNotFound, NotInDoubt
from agents.models import ToolCall
from agents.services import calls as journal
from agents.services import doubts, posting, turns
from agents.services.conversations import cancel, close, say
from inbox.errors import NotAllowed
from inbox.models import Item, Mailbox
from tests.agents.kit import assert_sound, last_turn, run_queued, transcript
from tests.agents.kit import calls as told
from tests.agents.scripts import use
from tests.database import uncommitted
from tests.factories import ConversationFactory, MailboxFactory, ToolCallFactory, UserFactory, backdate
from tests.processes import until


@pytest.fixture
def ada(db):
    return UserFactory(may=["agents.record_outcome", "agents.view_conversation"])


@pytest.fixture
def pay(declare):
    """A tool, and what is done while it runs."""
    ran = []

    @tool(name="pay")
    def paying() -> str:
        """Pay."""
        ran.append(1)
        paying_acts[-1]()
        return "Paid 10."

    paying_acts = [lambda: None]
    declare(paying)
    return lambda act: paying_acts.append(act) or ran


def mail() -> list[tuple[str, str]]:
    return list(Item.objects.filter(tag="tool:pay").values_list("response", "resolved_by"))


def lapse(conversation) -> None:
    backdate(last_turn(conversation), 1, "lease_until")


# --- A result that comes too late
@pytest.mark.django_db(transaction=True)
def test_a_result_after_a_cancel(conversation, pay, script):
    """The call was told as unknown when the turn was cancelled; its result is mail for the next one."""
    script(use("pay"))
    ran = pay(lambda: cancel(conversation.pk))
    say(conversation.pk, "Pay.")
    assert run_queued(conversation) == ["fenced"]
    assert told(conversation) == [("pay", "unknown", "")]
    assert mail() == [("It succeeded; the result came late:\nPaid 10.", "the tool itself")]
    assert ran == [1]
    run_queued(conversation)
    assert "Paid 10." in transcript(conversation)[-2][2]
    assert_sound()


@pytest.mark.django_db(transaction=True)
def test_a_result_of_a_worker_that_slept_through_its_lease(conversation, pay, script):
    """Another has the turn already and has found the call unsettled."""
    script(use("pay"), "I do not know.", "I see.")
    asleep, awake = threading.Event(), threading.Event()

    def sleep() -> None:
        asleep.set()
        awake.wait(30)

    ran = pay(sleep)
    say(conversation.pk, "Pay.")
    turn = last_turn(conversation)
    sleeper = threading.Thread(target=turns.start, args=[turn.pk])
    sleeper.start()
    assert asleep.wait(30)
    lapse(conversation)
    assert turns.start(turn.pk) == "done"
    awake.set()
    sleeper.join(30)
    assert told(conversation) == [("pay", "unknown", "")]
    assert len(mail()) == len(ran) == 1
    until(lambda: run_queued(conversation) or "Paid 10." in str(transcript(conversation)))
    assert_sound()


def test_who_knows_first_is_told_and_the_other_is_not(conversation, pay, script, ada):
    script(use("pay"))

    def found_out_meanwhile() -> None:
        cancel(conversation.pk)
        doubts.record(ToolCall.objects.get().pk, "It was paid, says the bank.", user=ada)

    pay(found_out_meanwhile)
    say(conversation.pk, "Pay.")
    run_queued(conversation)
    assert mail() == [("It was paid, says the bank.", ada.username)]
    assert ToolCall.objects.get().recorded == "It was paid, says the bank."


# --- A database that is away for a moment
def fails_once(monkeypatch, *, after: bool) -> None:
    """The next write of a result meets a dead connection: before it, or after its commit."""
    real, left = journal.ClaimedTurn._settle, [1]

    def settle(self, call, status, result):
        if left and after:
            real(self, call, status, result)
        if left:
            left.pop()
            raise OperationalError("server closed the connection unexpectedly")
        real(self, call, status, result)

    monkeypatch.setattr(journal, "AGAIN_S", (0.01, 0.01))
    monkeypatch.setattr(journal.ClaimedTurn, "_settle", settle)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("after", [False, True], ids=["before its commit", "in its commit"])
def test_a_result_is_written_again(conversation, pay, script, monkeypatch, after):
    """The turn goes on with it, and nothing is in doubt."""
    script(use("pay"), "Paid.")
    ran = pay(lambda: None)
    fails_once(monkeypatch, after=after)
    say(conversation.pk, "Pay.")
    assert run_queued(conversation) == ["done"]
    assert told(conversation) == [("pay", "done", "Paid 10.")]
    assert ran == [1]
    assert mail() == []
    assert_sound()


# --- What staff record
def test_staff_record_once_and_only_what_is_in_doubt(conversation, ada):
    call = ToolCallFactory(unknown=True, name="pay", turn__conversation=conversation)
    assert list(doubts.in_doubt()) == [call]
    doubts.record(call.pk, "It was not paid.", user=ada)
    assert list(doubts.in_doubt()) == []
    for again in (call, ToolCallFactory(done=True, turn=call.turn, message=call.message, position=1)):
        with pytest.raises(NotInDoubt):
            doubts.record(again.pk, "It was.", user=ada)
    assert mail() == [("It was not paid.", ada.username)]


def test_nobody_records_without_the_right_or_what_she_cannot_see(conversation, ada):
    call = ToolCallFactory(unknown=True, name="pay", turn__conversation=conversation)
    with pytest.raises(NotAllowed):
        doubts.record(call.pk, "Yes.", user=UserFactory(may=["agents.view_conversation"]))
    with pytest.raises(CallNotFound):
        doubts.record(call.pk, "Yes.", user=UserFactory(may=["agents.record_outcome"]))
    with pytest.raises(CallNotFound):
        doubts.record(0, "Yes.", user=ada)
    assert mail() == []


@pytest.mark.django_db(transaction=True)
def test_what_is_recorded_of_a_closed_conversation_is_for_the_mailboxs_next_reader(conversation, ada, script):
    call = ToolCallFactory(
        unknown=True, name="pay", turn__conversation=conversation, turn__done=True, turn__running=False
    )
    other = ConversationFactory(mailbox=conversation.mailbox)
    close(conversation.pk)
    doubts.record(call.pk, "It was paid.", user=ada)
    assert run_queued(other) == ["done"]
    assert "It was paid." in transcript(other)[0][2]


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_mailbox_that_an_atomic_tool_holds_is_not_waited_for(conversation, ada):
    """Such a tool, of any conversation of the mailbox, may hold it for longer than a lock is waited for."""
    one, other = (
        ToolCallFactory(unknown=True, name="pay", turn__conversation=conversation, turn__done=True, turn__running=False)
        for _ in range(2)
    )
    mailbox = Mailbox.objects.select_for_update(no_key=True).filter(pk=conversation.mailbox_id)
    with uncommitted(lambda: list(mailbox)):
        assert doubts.record_late(one.pk, "done", "Paid 10.")
        doubts.record(other.pk, "It was paid.", user=ada)
    assert sorted(mail()) == [
        ("It succeeded; the result came late:\nPaid 10.", "the tool itself"),
        ("It was paid.", ada.username),
    ]


@pytest.mark.django_db(transaction=True)
def test_a_late_result_waits_for_a_database_that_is_away_for_a_moment(conversation, pay, script, monkeypatch):
    script(use("pay"))
    tries = []
    record = doubts.record_late

    def away(*given):
        tries.append(given)
        if len(tries) < 3:
            raise OperationalError("server closed the connection unexpectedly")
        return record(*given)

    monkeypatch.setattr(doubts, "record_late", away)
    monkeypatch.setattr(journal, "AGAIN_S", (0, 0, 0))
    pay(lambda: cancel(conversation.pk))
    say(conversation.pk, "Pay.")
    assert run_queued(conversation) == ["fenced"]
    assert mail() == [("It succeeded; the result came late:\nPaid 10.", "the tool itself")]
    assert len(tries) == 3


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("written", ["a record", "a request"])
def test_what_is_written_as_the_conversation_closes(ada, race, settings, written):
    """Whichever is first, nothing is for a conversation that nobody will read again."""
    settings.INBOX_MAX_OPEN_ITEMS = 100
    mailbox = MailboxFactory()
    rounds = []
    for _ in range(100):
        one = ConversationFactory(mailbox=mailbox)
        done = {"turn__done": True, "turn__running": False}
        rounds.append((one, ToolCallFactory(unknown=True, name="pay", turn__conversation=one, **done)))
    start = threading.Barrier(2)

    def write(one, call):
        if written == "a record":
            doubts.record(call.pk, "It was paid.", user=ada)
        else:
            posting.post(one.pk, mailbox.pk, tag="pay:bill", request=f"Paid {call.pk}?")

    def act(index):
        for one, call in rounds:
            start.wait(30)
            if index:
                close(one.pk)
            else:
                write(one, call)

    finish = race(2, act)
    assert not finish.errors, finish.errors
    assert Item.objects.filter(origin=None).count() == Item.objects.count() == 100
    assert_sound()
