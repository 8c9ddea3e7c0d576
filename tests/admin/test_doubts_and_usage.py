"""Calls in doubt, what model calls take, and budgets that staff raise."""

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse

from agents import Agent, registry
from agents.models import BudgetRaise, ModelCall, ToolCall
from inbox.clock import today
from inbox.models import Item
from tests.factories import ConversationFactory, ToolCallFactory, TurnFactory, UserFactory

pytestmark = pytest.mark.django_db
VIEW = ["agents.view_conversation", "agents.view_toolcall", "agents.view_turn", "agents.view_modelcall"]


@pytest.fixture(autouse=True)
def tester():
    with registry.isolated():
        yield Agent("tester", instructions="Be brief.")


def browser(*may):
    client = Client()
    client.force_login(UserFactory(may=[*VIEW, *may], is_staff=True))
    return client


@pytest.fixture
def doubt():
    turn = TurnFactory(done=True)
    return ToolCallFactory(turn=turn, unknown=True, name="refund", input='{"cents": 500, "note": "<b>x</b>"}')


def test_what_staff_record_reaches_the_agent_once(doubt):
    client = browser("agents.record_outcome")
    page = client.get(reverse("admin:agents_toolcall_changelist")).content.decode()
    assert "refund" in page
    assert "nobody knows yet" in page
    url = reverse("admin:agents_toolcall_record", args=[doubt.pk])
    asked = client.get(url).content.decode()
    assert "&lt;b&gt;" in asked
    assert "<b>x</b>" not in asked
    assert client.post(url, {"what": " "}).status_code == 422
    assert client.post(url, {"what": "The bank paid 5.00 at noon.", "status": "done"}).status_code == 302
    again = client.post(url, {"what": "It did not."})
    assert again.status_code == 422
    assert "known already" in again.content.decode()

    doubt.refresh_from_db()
    assert (doubt.status, doubt.recorded) == ("unknown", "The bank paid 5.00 at noon.")
    letter = Item.objects.get()
    assert (letter.tag, letter.response, letter.origin) == (
        "tool:refund",
        "The bank paid 5.00 at noon.",
        doubt.turn.conversation_id,
    )
    assert LogEntry.objects.count() == 1
    assert "refund" not in client.get(reverse("admin:agents_toolcall_changelist")).content.decode()


def test_the_page_of_a_call_says_what_in_doubt_means(doubt):
    asked = reverse("admin:agents_toolcall_change", args=[doubt.pk])
    talk = reverse("admin:agents_conversation_change", args=[doubt.turn.conversation_id])
    page = browser().get(asked).content.decode()
    assert "Nobody knows whether this call happened" in page
    assert "<dt>Unknown since</dt>" in page
    assert "<dt>Ended</dt>" not in page
    assert f'href="{talk}"' in page
    client = browser("agents.record_outcome")
    client.post(reverse("admin:agents_toolcall_record", args=[doubt.pk]), {"what": "It did not."})
    assert "Nobody knows" not in client.get(asked).content.decode()
    known = ToolCallFactory(done=True, turn=TurnFactory(done=True))
    page = client.get(reverse("admin:agents_toolcall_change", args=[known.pk])).content.decode()
    assert "<dt>Ended</dt>" in page
    assert "Nobody knows" not in page


def test_who_may_not_record_changes_nothing(doubt):
    url = reverse("admin:agents_toolcall_record", args=[doubt.pk])
    for client in (browser(), Client()):
        assert client.post(url, {"what": "It happened."}).status_code in (302, 403)
    without_sight = Client()
    without_sight.force_login(UserFactory(may=["agents.record_outcome", "agents.view_toolcall"], is_staff=True))
    assert without_sight.post(url, {"what": "It happened."}).status_code == 404
    assert not ToolCall.objects.exclude(recorded_at=None).exists()
    assert not Item.objects.exists()


def test_a_call_whose_outcome_is_known_is_not_recorded():
    call = ToolCallFactory(done=True)
    client, url = browser("agents.record_outcome"), reverse("admin:agents_toolcall_record", args=[call.pk])
    assert client.post(url, {"what": "No."}).status_code == 422
    assert "Nobody knows" not in client.get(url).content.decode()
    assert not Item.objects.exists()


def test_sums_by_agent_and_day():
    turn = TurnFactory(conversation=ConversationFactory(), done=True)
    for tokens, cost in ((1200, 3_600), (800, 2_400)):
        ModelCall.objects.create(
            turn=turn,
            conversation=turn.conversation,
            agent="tester",
            day=today(),
            model="m",
            input_tokens=tokens,
            output_tokens=10,
            cost_micros=cost,
        )
    client = browser()
    page = client.get(reverse("admin:agents_modelcall_days")).content.decode()
    assert ">2000<" in page
    assert "0.0060" in page
    rows = client.get(reverse("admin:agents_modelcall_changelist")).content.decode()
    assert "Usage by agent and day" in rows
    assert '<td class="field-cost" data-name="Cost">0.0024</td>' in rows
    assert "<span>Cost</span>" in rows
    row = ModelCall.objects.latest("pk")
    assert client.get(reverse("admin:agents_modelcall_change", args=[row.pk])).status_code == 200
    stranger = Client()
    stranger.force_login(UserFactory(is_staff=True, may=["agents.view_modelcall"]))
    assert stranger.get(reverse("admin:agents_modelcall_days")).status_code == 403


def test_a_budget_is_raised_for_today():
    url = reverse("admin:agents_budgetraise_add")
    client = browser("agents.raise_budget", "agents.view_budgetraise")
    assert client.post(url, {"agent": "tester"}).status_code == 422
    assert client.post(url, {"agent": "tester", "tokens": "1000", "conversation": "77"}).status_code == 422
    assert client.post(url, {"agent": "tester", "tokens": "1000", "day": "2099-01-01"}).status_code == 302
    row = BudgetRaise.objects.get()
    assert (row.agent, row.tokens, row.conversation_id) == ("tester", 1000, None)
    assert row.day.year < 2099
    assert browser().post(url, {"agent": "tester", "tokens": "1"}).status_code == 403
    assert BudgetRaise.objects.count() == 1
