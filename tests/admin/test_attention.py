"""Case 6: staff are told of turns that failed and of calls in doubt, on the first page that they see and in lists of their own."""

from typing import Any

import pytest

from agents import attention
from agents.services import conversations, doubts
from tests.admin import world
from tests.factories import ConversationFactory, ToolCallFactory, TurnFactory

pytestmark = pytest.mark.django_db
INDEX, TURNS = "/admin/", "/admin/agents/turn/"


def failed(shop, **columns) -> Any:
    return TurnFactory(conversation__mailbox=shop.box, failed=True, **columns)


def page(client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_failed_turn_is_counted_until_somebody_tries_it_again(shop, sign_in):
    client = sign_in(shop.olga)
    assert "Failed turns" not in page(client, INDEX)
    turn = failed(shop)
    assert "Failed turns: 1" in page(client, INDEX)
    assert f"/admin/agents/turn/{turn.pk}/" in page(client, f"{TURNS}?left=failed")
    conversations.retry(turn.conversation_id)
    assert "Failed turns" not in page(client, INDEX)
    assert f"/admin/agents/turn/{turn.pk}/" not in page(client, f"{TURNS}?left=failed")
    assert f"/admin/agents/turn/{turn.pk}/" in page(client, TURNS)


def test_only_what_is_left_behind_counts(shop):
    """Not one that the next message went past, nor one of a conversation that is closed, nor one that somebody cancelled."""
    turn = failed(shop)
    TurnFactory(conversation=turn.conversation, done=True)
    TurnFactory(conversation=ConversationFactory(closed=True, mailbox=shop.box), failed=True)
    TurnFactory(conversation__mailbox=shop.box, cancelled=True)
    assert attention.counts(shop.olga) == {}


def test_calls_in_doubt_are_counted_until_somebody_knows(shop, sign_in):
    client = sign_in(shop.olga)
    call = ToolCallFactory(unknown=True, turn__conversation__mailbox=shop.box)
    assert "Tool calls in doubt: 1" in page(client, INDEX)
    doubts.record(call.pk, "It happened.", user=shop.olga)
    assert "in doubt: " not in page(client, INDEX)


def test_nobody_counts_what_she_may_not_see(shop, sign_in):
    failed(shop)
    ToolCallFactory(unknown=True, turn__conversation__mailbox=shop.box)
    assert set(attention.counts(shop.vera)) == {"failed"}, "a viewer sees turns, not calls"
    assert attention.counts(shop.nina) == {}
    looker = world.allow(world.person("mia"), "agents.view_turn", "agents.view_toolcall")
    assert attention.counts(looker) == {}, "no conversation of others"
    assert "Failed turns" not in page(sign_in(looker), INDEX)


def test_counting_stops(shop, monkeypatch, django_assert_max_num_queries):
    monkeypatch.setattr(attention, "MOST", 3)
    for _ in range(5):
        failed(shop)
    with django_assert_max_num_queries(6):
        assert attention.counts(shop.olga) == {"failed": "3+"}
