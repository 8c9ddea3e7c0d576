"""What models took, by day: of a conversation for whoever sees it, of an agent for staff who see everything."""

import datetime
from typing import Any

import pytest

from agents.models import Conversation, ModelCall
from tests.api.kit import assert_problem, by_key, by_session, person
from tests.factories import TurnFactory

TODAY = datetime.date(2026, 12, 1)


@pytest.fixture
def talk(world):
    return Conversation.objects.create(agent="helper", mailbox=world.mailbox, owner=world.ada)


def call(talk, days_ago: int = 0, **columns) -> ModelCall:
    turn: Any = talk.turns.first() or TurnFactory(conversation=talk, done=True)
    given = {"input_tokens": 100, "output_tokens": 10, "cost_micros": 1_500, "model": "m", **columns}
    day = TODAY - datetime.timedelta(days=days_ago)
    return ModelCall.objects.create(turn=turn, conversation=talk, agent=talk.agent, day=day, **given)


def days(caller, path: str) -> list:
    answer = caller.get(path)
    assert answer.status_code == 200, answer.content
    found = answer.json()
    assert found["next"] is None
    return found["items"]


def test_a_conversations_days(world, talk):
    call(talk)
    call(talk, cache_read_tokens=7, cache_write_tokens=3, cost_micros=2_000_000)
    call(talk, error="overloaded", input_tokens=0, output_tokens=0, cost_micros=0)
    call(talk, days_ago=3)
    call(Conversation.objects.create(agent="helper", mailbox=world.other, owner=world.bob))
    assert days(by_key(world.ada), f"/conversations/{talk.pk}/usage") == [
        {
            "day": "2026-12-01", "calls": 3, "failed": 1, "input_tokens": 200, "output_tokens": 20,
            "cache_read_tokens": 7, "cache_write_tokens": 3, "cost": "2.001500",
        },
        {
            "day": "2026-11-28", "calls": 1, "failed": 0, "input_tokens": 100, "output_tokens": 10,
            "cache_read_tokens": 0, "cache_write_tokens": 0, "cost": "0.001500",
        },
    ]  # fmt: skip


def test_an_agents_days_are_those_of_all_its_conversations(world, talk):
    call(talk)
    call(Conversation.objects.create(agent="helper", mailbox=world.other, owner=world.bob))
    (day,) = days(by_session(world.root), "/agents/helper/usage")
    assert (day["calls"], day["input_tokens"]) == (2, 200)


@pytest.mark.parametrize(("asked", "shown"), [("", 30), ("?days=2", 2), ("?days=366", 40)])
def test_so_many_days_at_most(world, talk, asked, shown):
    for days_ago in range(40):
        call(talk, days_ago=days_ago)
    found = days(by_key(world.ada), f"/conversations/{talk.pk}/usage{asked}")
    assert len(found) == shown
    assert found[0]["day"] == "2026-12-01"


def test_the_days_have_pages(world, talk):
    for days_ago in range(5):
        call(talk, days_ago=days_ago)
    caller, path, seen, cursor = by_key(world.ada), f"/conversations/{talk.pk}/usage?days=4&limit=3", [], ""
    while cursor is not None:
        page = caller.get(path + (cursor and f"&cursor={cursor}")).json()
        seen.append([day["day"] for day in page["items"]])
        cursor = page["next"]
    assert seen == [["2026-12-01", "2026-11-30", "2026-11-29"], ["2026-11-28"]]


def test_nothing_yet(world, talk):
    assert days(by_key(world.ada), f"/conversations/{talk.pk}/usage") == []


def test_who_may_see_it(world, talk):
    assert_problem(by_key(world.bob).get(f"/conversations/{talk.pk}/usage"), 404, "conversation-not-found")
    assert_problem(by_key(world.ada, "converse").get(f"/conversations/{talk.pk}/usage"), 403, "scope")
    for user in (world.ada, person("half", "agents.view_conversation"), person("other", "agents.view_modelcall")):
        assert_problem(by_key(user).get("/agents/helper/usage"), 403, "not-allowed")
    both = person("both", "agents.view_conversation", "agents.view_modelcall")
    assert days(by_key(both), "/agents/helper/usage") == []
    assert_problem(by_key(both).get("/agents/nobody/usage"), 404, "unknown-agent")


@pytest.mark.parametrize("wrong", ["0", "-1", "367", "many", ""])
def test_a_wrong_number_of_days(world, talk, wrong):
    assert by_key(world.ada).get(f"/conversations/{talk.pk}/usage?days={wrong}").status_code == 422


def test_many_calls_cost_as_many_queries_as_one(world, talk, django_assert_max_num_queries):
    caller = by_session(world.ada)
    for days_ago in range(5):
        call(talk, days_ago=days_ago)
    with django_assert_max_num_queries(
        6
    ):  # five for the session, the user and her permissions, and to find the conversation
        caller.get(f"/conversations/{talk.pk}/usage")
