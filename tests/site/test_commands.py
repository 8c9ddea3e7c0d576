"""The commands of manage.py, as an operator uses them."""

import io

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from agents import registry
from agents.declare import Agent
from agents.models import Conversation, Message, ToolCall, Turn
from agents.services import conversations
from inbox import sweep
from inbox.clock import clock
from inbox.models import IdempotencyKey, Item, Mailbox
from inbox.services import items, keys

pytestmark = pytest.mark.django_db


def run(name, *arguments):
    out, err = io.StringIO(), io.StringIO()
    call_command(name, *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


@pytest.fixture
def ada():
    return get_user_model().objects.create_user("ada")


@pytest.fixture
def mailbox():
    return Mailbox.objects.create(address="planner", agent="planner")


@pytest.fixture(autouse=True)
def planner():
    with registry.isolated():
        yield Agent("planner", instructions="Plan.")


# --- create_api_key
def test_the_key_stands_alone_on_stdout_and_works(ada):
    out, _ = run("create_api_key", "ada", "--name", "cli", "--scope", "read", "--scope", "resolve")
    key = keys.find_key(out.strip())
    assert out == f"{out.strip()}\n"
    assert (key.user, key.name, key.scopes, key.peer) == (ada, "cli", ["read", "resolve"], None)


def test_a_key_may_be_bound_to_a_peer_whatever_the_case(ada, mailbox):
    out, _ = run("create_api_key", "ada", "--name", "peer", "--peer", "Planner")
    assert keys.find_key(out.strip()).peer == mailbox


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bob", "--name", "x"], "There is no user 'bob'"),
        (["ada", "--name", "x", "--scope", "fly"], "There is no scope fly"),
        (
            ["ada", "--name", "x", "--peer", "nobody"],
            r"There is no mailbox 'nobody'.*peer\(.nobody.\).*Peers in the admin",
        ),
        (["ada", "--name", " "], "blank"),
        (["ada"], "--name"),
    ],
)
def test_what_is_wrong_with_a_key_is_said(ada, arguments, says):
    with pytest.raises(CommandError, match=says):
        run("create_api_key", *arguments)
    assert not keys.ApiKey.objects.exists()


def test_no_key_for_a_user_who_is_switched_off(ada):
    get_user_model().objects.update(is_active=False)
    with pytest.raises(CommandError, match="not active"):
        run("create_api_key", "ada", "--name", "x")


# --- sweep
def test_one_pass_says_what_each_job_found(mailbox):
    item = items.post(mailbox.pk, tag="a", request="b")
    Item.objects.filter(pk=item.pk).update(due_at=clock(-1))
    out, _ = run("sweep")
    assert "items_expired: 1\n" in out
    assert {line.partition(":")[0] for line in out.splitlines()} == {job.name for job in sweep.jobs()}


def test_a_failed_job_is_said_and_the_exit_is_1(mailbox, monkeypatch):
    monkeypatch.setitem(sweep._jobs, "broken", sweep.Job("broken", lambda: 1 // 0, sweep.QUICK))
    out = io.StringIO()
    with pytest.raises(CommandError, match="failed"):
        call_command("sweep", stdout=out)
    assert "broken: failed\n" in out.getvalue()


# --- purge
@pytest.fixture
def old_conversation(mailbox):
    """Closed 40 days ago, with one of everything under it."""
    conversation = conversations.open_conversation(mailbox.pk)
    turn = Turn.objects.create(conversation=conversation, not_before=clock(), status="done", finished_at=clock())
    message = Message.objects.create(conversation=conversation, sender="agent", place=1, turn=turn, text="Yes.")
    ToolCall.objects.create(
        turn=turn,
        message=message,
        position=0,
        call_id="c",
        name="n",
        input="{}",
        status="done",
        started_at=clock(),
        finished_at=clock(),
    )
    conversation.tasks.create(position=0, content="Plan")
    Conversation.objects.filter(pk=conversation.pk).update(status="closed", closed_at=clock(-40 * 24 * 3600))
    return conversation


def test_purge_forgets_what_was_closed_long_ago_with_everything_under_it(old_conversation):
    IdempotencyKey.objects.create(caller="a", route="b", key="c", body_hash="d")
    IdempotencyKey.objects.update(created_at=clock(-31 * 24 * 3600))
    out, _ = run("purge", "--older-than", "30d")
    assert "closed conversations: 1\n" in out
    assert "idempotency keys: 1\n" in out
    for model in (Conversation, Turn, Message, ToolCall):
        assert not model.objects.exists()
    assert Mailbox.objects.exists()


@pytest.mark.parametrize("why", ["too young", "open", "an open turn", "an answer may come", "an answer is unread"])
def test_purge_leaves_what_may_still_be_needed(old_conversation, mailbox, why):
    if why == "too young":
        Conversation.objects.update(closed_at=clock(-29 * 24 * 3600))
    elif why == "open":
        Conversation.objects.update(status="open", closed_at=None)
    elif why == "an open turn":
        Turn.objects.create(conversation=old_conversation, not_before=clock())
    else:
        item = items.post(mailbox.pk, tag="a", request="b", origin=old_conversation.pk)
        if why == "an answer is unread":
            items.resolve(item.pk, "Yes.", by="sam", via="admin")
    out, _ = run("purge", "--older-than", "30d")
    assert "closed conversations: 0\n" in out
    assert Conversation.objects.filter(pk=old_conversation.pk).exists()
    assert Message.objects.count() == 1


@pytest.mark.parametrize("age", ["30", "0d", "-1d", "d", "1.5d", "30 d", "99999999d"])
def test_an_age_that_is_none_is_refused(age):
    with pytest.raises(CommandError, match="not an age"):
        run("purge", f"--older-than={age}")
