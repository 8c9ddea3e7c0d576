"""The routes of agents: conversations, messages, turns, tasks, permissions."""

import json

import pytest
from django.utils import timezone

from agents.models import Conversation, Message, Permission, ToolCall, Turn
from agents.services import conversations, permissions, tasks
from tests.api.kit import assert_problem, by_key
from tests.factories import TurnFactory

pytestmark = pytest.mark.django_db


def test_agents(world):
    found = by_key(world.bob).get("/agents").json()
    assert found["next"] is None
    helper = next(agent for agent in found["items"] if agent["name"] == "helper")
    assert helper == {"name": "helper", "description": "Helps.", "capabilities": ["help"], "tools": ["look_up"]}
    assert [agent["name"] for agent in found["items"]] == sorted(agent["name"] for agent in found["items"])


def test_the_words_of_an_exception_are_for_staff(world):
    talk = Conversation.objects.create(agent="helper", mailbox=world.mailbox, owner=world.ada)
    TurnFactory(conversation=talk, failed=True, reason="error", error="OperationalError: password of db.internal")
    TurnFactory(conversation=talk, failed=True, reason="refusal", error="The model refused.")
    TurnFactory(conversation=talk, reason="database", error="OperationalError: no route to db.internal")
    again, told, hidden = by_key(world.ada).get(f"/conversations/{talk.pk}/turns").json()["items"]
    assert again["error"] == "The database did not answer. It is asked again."
    assert told["error"] == "The model refused."
    assert hidden["error"] == "Something went wrong that nobody foresaw. Staff can see what it was."


def test_opening(world):
    response = by_key(world.bob).post("/conversations", {"agent": "helper", "title": "Beans"})
    found = response.json()
    assert response.status_code == 201
    assert found.pop("created_at")
    pk = found.pop("id")
    assert Conversation.objects.get(pk=pk).mailbox.owner == world.bob
    assert found == {
        "agent": "helper",
        "mailbox": "helper/bob",
        "title": "Beans",
        "status": "open",
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }
    assert by_key(world.bob).get(f"/conversations/{pk}").json() | {"created_at": 0} == found | {
        "id": pk,
        "created_at": 0,
    }


@pytest.mark.parametrize(
    ("wish", "status", "slug"),
    [
        ({"agent": "nobody"}, 404, "unknown-agent"),
        ({"agent": ""}, 404, "unknown-agent"),
        ({}, 422, "invalid"),
        ({"agent": "helper", "mailbox": "helper/ada"}, 404, "mailbox-not-found"),
        ({"agent": "helper", "mailbox": "planner"}, 404, "mailbox-not-found"),
        ({"agent": "helper", "mailbox": "helper/bob/../ada!"}, 422, "bad-address"),
        ({"agent": "helper", "mailbox": "helper/bob/../ada"}, 422, "bad-address"),
        ({"agent": "helper", "mailbox": ""}, 422, "bad-address"),
        ({"agent": "helper", "mailbox": "h\u0435lper/bob"}, 422, "bad-address"),
        ({"agent": "helper", "mailbox": "x" * 201}, 422, "bad-address"),
        ({"agent": "helper", "title": "x" * 201}, 413, "text-too-long"),
        ({"agent": "helper", "title": "\u200b"}, 422, "blank-text"),
        ({"agent": "helper", "name": "x"}, 422, "invalid"),
    ],
)
def test_opening_what_cannot_be(world, wish, status, slug):
    before = Conversation.objects.count()
    assert_problem(by_key(world.bob).post("/conversations", wish), status, slug)
    assert Conversation.objects.count() == before


def test_below_ones_own_address(world):
    response = by_key(world.bob).post("/conversations", {"agent": "helper", "mailbox": "helper/bob/side"})
    assert response.json()["mailbox"] == "helper/bob/side"


def test_several_on_one_mailbox_newest_first(world):
    caller = by_key(world.bob)
    ids = [caller.post("/conversations", {"agent": "helper"}).json()["id"] for _ in range(3)]
    assert [found["id"] for found in caller.get("/conversations").json()["items"]] == ids[::-1]


@pytest.fixture
def talk(world):
    return conversations.open_conversation(world.mailbox.pk)


def test_saying(world, talk):
    caller = by_key(world.ada)
    response = caller.post(f"/conversations/{talk.pk}/messages", {"text": "Are there beans?"})
    found = response.json()
    assert response.status_code == 202
    assert found == {"id": found["id"], "conversation": str(talk.pk), "status": "queued"}
    assert Message.objects.get(pk=found["id"]).author == world.ada
    (entry,) = caller.get(f"/conversations/{talk.pk}/messages").json()["items"]
    assert entry.pop("created_at")
    assert entry == {
        "id": found["id"],
        "sender": "user",
        "kind": "message",
        "text": "Are there beans?",
        "tool_calls": [],
        "turn": None,
    }
    (turn,) = caller.get(f"/conversations/{talk.pk}/turns").json()["items"]
    assert turn.pop("created_at")
    assert turn.pop("id")
    assert turn == {
        "status": "queued",
        "reason": "",
        "attempts": 0,
        "usage": {"input_tokens": 0, "output_tokens": 0},
        "error": "",
        "started_at": None,
        "finished_at": None,
    }


@pytest.mark.parametrize(
    ("text", "status", "slug"),
    [
        ("", 422, "blank-text"),
        (" \n\u200b", 422, "blank-text"),
        ("x" * 65_537, 413, "text-too-long"),
        ("a\0", 422, "text"),
    ],
)
def test_saying_what_cannot_be_said(world, talk, text, status, slug):
    response = by_key(world.ada).post(f"/conversations/{talk.pk}/messages", {"text": text})
    assert_problem(response, status, slug)
    assert not Message.objects.exists()
    assert not Turn.objects.exists()


def test_closing(world, talk):
    caller, path = by_key(world.ada), f"/conversations/{talk.pk}"
    caller.post(f"{path}/messages", {"text": "Hello?"})
    for _ in range(2):
        response = caller.post(f"{path}/close")
        assert (response.status_code, response.json()["status"]) == (200, "closed")
    assert_problem(caller.post(f"{path}/messages", {"text": "Still there?"}), 409, "conversation-closed")
    assert_problem(caller.post(f"{path}/retry"), 409, "conversation-closed")
    assert_problem(caller.post(f"{path}/cancel"), 409, "nothing-to-cancel")
    assert Message.objects.count() == 1
    assert caller.get(f"{path}/turns").json()["items"][0]["status"] == "cancelled"


def test_cancelling_and_trying_again(world, talk):
    caller, path = by_key(world.ada), f"/conversations/{talk.pk}"
    assert_problem(caller.post(f"{path}/cancel"), 409, "nothing-to-cancel")
    assert_problem(caller.post(f"{path}/retry"), 409, "nothing-to-retry")
    caller.post(f"{path}/messages", {"text": "Hello?"})
    assert_problem(caller.post(f"{path}/retry"), 409, "nothing-to-retry")
    cancelled = caller.post(f"{path}/cancel").json()
    assert (cancelled["status"], cancelled["finished_at"] is None) == ("cancelled", False)
    again = caller.post(f"{path}/retry").json()
    assert (again["status"], again["id"] != cancelled["id"]) == ("queued", True)
    assert [turn["id"] for turn in caller.get(f"{path}/turns").json()["items"]] == [again["id"], cancelled["id"]]


def calls_of(talk, number):
    """A reply with its tool calls, as a turn leaves it."""
    turn = talk.turns.first() or Turn.objects.create(
        conversation=talk, status="done", not_before=timezone.now(), finished_at=timezone.now()
    )
    place = talk.messages.count() + 1
    reply = Message.objects.create(conversation=talk, place=place, sender="agent", text=f"Reply {number}", turn=turn)
    now = timezone.now()
    for position, (status, given, result) in enumerate(
        [("done", '{"word": "bean"}', "a seed"), ("aborted", '{"word": "be', "cut off"), ("pending", "{}", "")]
    ):
        ToolCall.objects.create(
            turn=turn,
            message=reply,
            position=position,
            call_id=f"toolu_{position}",
            name="look_up",
            input=given,
            status=status,
            result=result,
            started_at=now if status == "done" else None,
            finished_at=None if status == "pending" else now,
        )
    return reply


def test_tool_calls(world, talk):
    reply = calls_of(talk, 1)
    (entry,) = by_key(world.ada).get(f"/conversations/{talk.pk}/messages").json()["items"]
    assert (entry["sender"], entry["text"], entry["turn"]) == ("agent", "Reply 1", str(reply.turn_id))
    ids = [str(pk) for pk in reply.calls.order_by("position").values_list("pk", flat=True)]
    assert entry["tool_calls"] == [
        {"id": ids[0], "name": "look_up", "input": {"word": "bean"}, "status": "done", "result": "a seed"},
        {"id": ids[1], "name": "look_up", "input": '{"word": "be', "status": "aborted", "result": "cut off"},
        {"id": ids[2], "name": "look_up", "input": {}, "status": "pending", "result": ""},
    ]


@pytest.mark.parametrize("path", ["/messages", "/turns", "/tasks", ""])
def test_a_page_costs_the_same_however_long_it_is(world, talk, path, django_assert_max_num_queries):
    caller = by_key(world.ada)
    address = f"/conversations/{talk.pk}{path}" if path else "/conversations"
    counts = []
    for number in range(2):
        calls_of(talk, number)
        with django_assert_max_num_queries(8) as captured:
            assert caller.get(address).status_code == 200
        counts.append(len(captured))
        for more in range(5):
            calls_of(talk, more)
            conversations.open_conversation(world.mailbox.pk)
            tasks.replace_tasks(talk.pk, [("Buy", "Buying", "pending")] * 5)
    assert counts[0] == counts[1]


def test_mail_in_the_history(world, talk):
    Message.objects.create(conversation=talk, place=1, sender="user", kind="inbox", text="[[mail]]", item=world.closed)
    (entry,) = by_key(world.ada).get(f"/conversations/{talk.pk}/messages").json()["items"]
    assert (entry["sender"], entry["kind"], entry["text"]) == ("user", "inbox", "[[mail]]")


def test_tasks(world, talk):
    tasks.replace_tasks(talk.pk, [("Ask", "Asking", "completed"), ("Wait", "Waiting", "in_progress")])
    found = by_key(world.ada).get(f"/conversations/{talk.pk}/tasks").json()
    assert [(task["content"], task["activeForm"], task["status"]) for task in found["items"]] == [
        ("Ask", "Asking", "completed"),
        ("Wait", "Waiting", "in_progress"),
    ]
    assert found["next"] is None


def test_permissions(world):
    granted = permissions.grant(
        agent="helper",
        tool="look_up",
        mailbox_id=world.mailbox.pk,
        scope="arguments",
        arguments=json.dumps({"word": "bean"}),
        user=world.root,
        uses=3,
    )
    (found,) = by_key(world.ada).get("/permissions").json()["items"]
    assert found.pop("decided_at")
    assert found == {
        "id": str(granted.pk),
        "agent": "helper",
        "tool": "look_up",
        "mailbox": "helper/ada",
        "decision": "grant",
        "scope": "arguments",
        "arguments": {"word": "bean"},
        "uses": 3,
        "expires_at": None,
        "decided_by": "root",
        "revoked_at": None,
    }
    response = by_key(world.root).post(f"/permissions/{granted.pk}/revoke")
    assert (response.status_code, response.json()["revoked_at"] is None) == (200, False)
    assert Permission.objects.get().revoked_at
    again = by_key(world.root).post(f"/permissions/{granted.pk}/revoke")
    assert again.json() == response.json()


def test_reading_changes_nothing(world, talk):
    conversations.say(talk.pk, "Hello?")
    tables = (Conversation, Message, Turn, ToolCall)
    before = [list(table.objects.order_by("pk").values()) for table in tables]
    caller = by_key(world.ada)
    for _ in range(3):
        for path in ("", f"/{talk.pk}", f"/{talk.pk}/messages", f"/{talk.pk}/turns", f"/{talk.pk}/tasks"):
            assert caller.get(f"/conversations{path}").status_code == 200
    assert [list(table.objects.order_by("pk").values()) for table in tables] == before
