"""Standing decisions about gated tools: bound to mailbox, agent, tool and canonical arguments, with a scope, uses and an end."""

from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.db import IntegrityError, transaction
from django.utils import timezone

from agents import tool
from agents.errors import BadPermission, PermissionNotFound, UnknownAgent
from agents.models import Permission
from agents.services import permissions
from inbox.errors import NotAllowed
from tests.agents.kit import ask, assert_sound, calls
from tests.agents.scripts import results, use
from tests.factories import ConversationFactory, PermissionFactory, UserFactory, backdate, fresh

TEN = '{"cents":10,"to":"ada"}'


@pytest.fixture
def ran():
    return []


@pytest.fixture
def bank(declare, ran):
    """An agent with a gated tool, one that is gated over a sum, and one that is gated and atomic."""

    @tool(permission=True)
    def transfer(cents: int, to: str = "ada") -> str:
        """Transfer."""
        ran.append(("transfer", cents, to))
        return "Transferred."

    @tool(permission=lambda cents: cents > 100)
    def tip(cents: int) -> str:
        """Tip."""
        ran.append(("tip", cents))
        return "Tipped."

    @tool(permission=True, atomic=True)
    def book() -> str:
        """Book."""
        ran.append(("book",))
        return "Booked."

    return declare(transfer, tip, book)


def grant(mailbox=None, **given):
    given = {"agent": "tester", "tool": "transfer", "scope": "any", "mailbox_id": mailbox and mailbox.pk, **given}
    return permissions.grant(**given)


def run(conversation, script, *uses):
    """Have the model make these calls; how each ended."""
    script(list(uses), "Good.")
    assert ask(conversation) == "done"
    return [status for _, status, _ in calls(conversation)][-len(uses) :]


def test_without_a_grant_a_gated_tool_never_runs(bank, conversation, script, ran):
    model = script([use("transfer", cents=10), use("book")], "Oh.")
    assert ask(conversation) == "done"
    assert ran == []
    assert [status for _, status, _ in calls(conversation)] == ["denied", "denied"]
    for told in results(model.prompts[1]):
        assert "staff have granted it" in told["content"]
        assert told["is_error"]
    assert_sound()


def test_a_rule_gates_some_arguments_only(bank, conversation, script, ran):
    assert run(conversation, script, use("tip", cents=100), use("tip", cents=101)) == ["done", "denied"]
    assert ran == [("tip", 100)]


def test_a_grant_for_these_arguments(bank, conversation, script, ran):
    """Case 27: granted for 10; 1000 is refused; 10 with its keys in another order is allowed."""
    grant(conversation.mailbox, scope="arguments", arguments='{"cents": 10}')
    made = run(
        conversation,
        script,
        use("transfer", cents=1000),
        use("transfer", to="ada", cents=10),
        use("transfer", cents=10),
        use("transfer", cents=10, to="bob"),
    )
    assert made == ["denied", "done", "done", "denied"]
    assert ran == [("transfer", 10, "ada")] * 2


def test_a_grant_for_any_arguments(bank, conversation, script, ran):
    grant(conversation.mailbox)
    assert run(conversation, script, use("transfer", cents=1), use("transfer", cents=2)) == ["done", "done"]


def test_no_arguments_is_not_any(bank, conversation, script):
    """A grant of the empty object fits a call without arguments, not every call."""
    grant(conversation.mailbox, tool="book", scope="arguments", arguments="{}")
    assert run(conversation, script, use("book")) == ["done"]
    with pytest.raises(BadPermission):
        grant(conversation.mailbox, scope="arguments", arguments="{}")
    with pytest.raises(BadPermission):
        grant(conversation.mailbox, scope="arguments", arguments="")
    assert run(conversation, script, use("transfer", cents=1)) == ["denied"]


def test_a_grant_for_one_call(bank, conversation, script, ran):
    grant(conversation.mailbox, scope="call", arguments=TEN)
    calls_made = [use("transfer", cents=10), use("transfer", cents=10)]
    assert run(conversation, script, *calls_made) == ["done", "denied"]


def test_a_grant_of_so_many_uses(bank, conversation, script, ran):
    permission = grant(conversation.mailbox, uses=2)
    assert run(conversation, script, *(use("transfer", cents=n) for n in range(3))) == ["done", "done", "denied"]
    assert fresh(permission).uses == 0
    grant(conversation.mailbox, uses=1)
    unlimited = grant(conversation.mailbox)
    assert run(conversation, script, use("transfer", cents=1)) == ["done"]
    assert list(Permission.objects.filter(uses=1)) != []  # the unlimited one is used first
    assert fresh(unlimited).uses is None


@pytest.mark.parametrize("end", ["expired", "revoked"])
def test_a_grant_ends(bank, conversation, script, ran, end):
    permission = grant(conversation.mailbox, expires_at=timezone.now() + timedelta(hours=1))
    assert run(conversation, script, use("transfer", cents=1)) == ["done"]
    if end == "expired":
        backdate(permission, 1, "expires_at")
    else:
        permissions.revoke(permission.pk, UserFactory(may=["agents.decide_permission"]))
    assert run(conversation, script, use("transfer", cents=1)) == ["denied"]


@pytest.mark.parametrize("other", ["mailbox", "agent", "tool"])
def test_a_grant_is_bound(bank, conversation, script, other):
    PermissionFactory(
        mailbox=ConversationFactory().mailbox if other == "mailbox" else conversation.mailbox,
        agent="another" if other == "agent" else "tester",
        tool="tip" if other == "tool" else "transfer",
    )
    assert run(conversation, script, use("transfer", cents=1)) == ["denied"]


def test_an_agent_wide_grant_counts_in_every_mailbox(bank, conversation, script):
    grant(None)
    for talk in (conversation, ConversationFactory()):
        assert run(talk, script, use("transfer", cents=1)) == ["done"]


def test_a_denial_wins_over_every_grant(bank, conversation, script, ran):
    grant(None)
    grant(conversation.mailbox)
    grant(conversation.mailbox, decision="deny", scope="arguments", arguments=TEN)
    assert run(conversation, script, use("transfer", cents=10), use("transfer", cents=11)) == ["denied", "done"]
    assert "have denied transfer" in calls(conversation)[0][2]


@pytest.mark.django_db(transaction=True)
def test_the_last_use_is_spent_once(bank, conversation, race):
    """Two turns of one mailbox, one use left."""
    grant(conversation.mailbox, uses=3)

    def spend(index):
        with transaction.atomic():
            return permissions.spend("tester", "transfer", conversation.mailbox_id, TEN)

    finish = race(10, spend)
    assert not finish.errors
    assert finish.results.count("") == 3


def test_a_use_that_was_spent_on_an_atomic_tool_that_failed_is_given_back(declare, conversation, script):
    @tool(permission=True, atomic=True)
    def book() -> str:
        """Book."""
        raise ValueError

    declare(book)
    permission = grant(conversation.mailbox, tool="book", uses=1)
    assert run(conversation, script, use("book")) == ["failed"]
    assert fresh(permission).uses == 1


# --- Who decides
def test_granting_needs_the_permission_and_leaves_an_entry(bank, conversation):
    clerk = UserFactory(may=["agents.decide_permission"])
    permission = grant(conversation.mailbox, user=clerk)
    assert (permission.decided_by, permission.mailbox) == (clerk, conversation.mailbox)
    permissions.revoke(permission.pk, clerk)
    permissions.revoke(permission.pk, clerk)  # again changes nothing
    entries = LogEntry.objects.filter(user=clerk, object_id=str(permission.pk)).order_by("pk")
    assert list(entries.values_list("change_message", flat=True)) == ["grant transfer (any).", "Revoked."]


def test_who_may_not(bank, conversation):
    clerk, chief = (
        UserFactory(may=["agents.decide_permission"]),
        UserFactory(may=["agents.decide_permission", "agents.decide_permission_agent_wide"]),
    )
    for user, mailbox in ((UserFactory(), conversation.mailbox), (clerk, None)):
        with pytest.raises(NotAllowed):
            grant(mailbox, user=user)
    permission = grant(None, user=chief)
    with pytest.raises(NotAllowed):
        permissions.revoke(permission.pk, UserFactory())
    with pytest.raises(PermissionNotFound):
        permissions.revoke(0, chief)
    assert fresh(permission).revoked_at is None


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"scope": "everything"}, BadPermission),
        ({"scope": "arguments", "arguments": "not json"}, BadPermission),
        ({"scope": "arguments", "arguments": "[10]"}, BadPermission),
        ({"scope": "call", "arguments": '{"cents": "many"}'}, BadPermission),
        ({"scope": "arguments", "arguments": '{"cents": 10, "more": 1}'}, BadPermission),
        ({"scope": "arguments", "arguments": TEN, "tool": "nothing"}, BadPermission),
        ({"scope": "arguments", "arguments": TEN, "agent": "nobody"}, UnknownAgent),
        ({"uses": 0}, BadPermission),
        ({"uses": -1}, BadPermission),
    ],
)
def test_what_cannot_be_granted(bank, conversation, wrong, error):
    with pytest.raises(error):
        grant(conversation.mailbox, **wrong)
    assert not Permission.objects.exists()


def test_staff_are_told_which_argument_does_not_fit(bank, conversation):
    with pytest.raises(BadPermission) as refused:
        grant(conversation.mailbox, scope="arguments", arguments='{"cents": "many", "more": 1}')
    assert "cents: " in str(refused.value)
    assert "more: " in str(refused.value)
    assert "pydantic" not in str(refused.value)


@pytest.mark.django_db
@pytest.mark.parametrize("wrong", [{"scope": "any", "arguments": "{}"}, {"scope": "arguments"}, {"scope": "call"}])
def test_the_database_tells_none_from_any_too(wrong):
    with pytest.raises(IntegrityError), transaction.atomic():
        PermissionFactory(**wrong)
