"""Case 6, the slow way: a model that asks again and again for the call that kills its worker."""

import pytest

from agents import tool
from agents.models import Turn
from agents.services import permissions, turns
from agents.services.conversations import say
from agents.services.waking import wake_unrung
from inbox.errors import InboxError
from tests.agents.kit import assert_sound, calls, last_turn, run_queued
from tests.agents.scripts import use
from tests.factories import ItemFactory, MailboxFactory, UserFactory, backdate

pytestmark = pytest.mark.django_db(transaction=True)


class Killed(BaseException):
    """The worker is gone: nothing of it runs any more."""


@tool
def deadly() -> str:
    """Kill whoever runs this."""
    raise Killed


def test_a_call_that_always_kills_its_worker_is_asked_for_three_times_at_most(declare, script, conversation):
    declare(deadly)
    script(rest=use("deadly"))
    say(conversation.pk, "Do it.")
    for _ in range(3):
        with pytest.raises(Killed):
            turns.start(last_turn(conversation).pk)
        backdate(last_turn(conversation), 60, "lease_until")
    turns.start(last_turn(conversation).pk)
    turn = last_turn(conversation)
    assert (turn.status, turn.reason, turn.attempts) == ("failed", "attempts", 3)
    assert {status for _, status, _ in calls(conversation)} == {"unknown"}
    script("Here I am.")
    say(conversation.pk, "Are you there?")
    assert run_queued(conversation) == ["done"]
    assert_sound()


def test_a_call_that_ends_well_is_progress(declare, script, conversation):
    @tool
    def fine() -> str:
        """Do something harmless."""
        return "Fine."

    declare(fine, deadly)
    script(use("deadly"), use("fine"), use("deadly"), use("fine"), rest="Done.")
    say(conversation.pk, "Do it.")
    for _ in range(2):
        with pytest.raises(Killed):
            turns.start(last_turn(conversation).pk)
        backdate(last_turn(conversation), 60, "lease_until")
    assert turns.start(last_turn(conversation).pk) == "done"
    assert Turn.objects.get().attempts == 0


def test_a_denial_of_one_call_is_not_a_standing_decision(declare, conversation):
    declare(deadly)
    person = UserFactory(may=["agents.decide_permission"])
    with pytest.raises(InboxError, match="not granting"):
        permissions.grant(
            agent="tester",
            tool="deadly",
            mailbox_id=conversation.mailbox_id,
            scope="call",
            arguments="{}",
            decision="deny",
            user=person,
        )


def test_one_mailbox_that_cannot_be_woken_does_not_hold_up_the_others(agent, monkeypatch):
    from django.db import OperationalError

    from agents.services import waking

    stuck, free = (ItemFactory(mailbox=MailboxFactory(), resolved=True, rung=False) for _ in range(2))
    real = waking.wake

    def wake(mailbox_id):
        if mailbox_id == stuck.mailbox_id:
            raise OperationalError("canceling statement due to lock timeout")
        return real(mailbox_id)

    monkeypatch.setattr(waking, "wake", wake)
    assert wake_unrung() == 1
    free.refresh_from_db()
    assert free.rung
