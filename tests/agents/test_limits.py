"""The bounds of section 4 that money and tokens have, where each bound may be set, and what is done with one that is wrong."""

from decimal import Decimal

import pytest

from agents import Agent, limits
from agents.errors import BadBudget, BadDeclaration, ConversationNotFound, UnknownAgent
from agents.models import BudgetRaise, Conversation, ModelCall, Turn
from agents.services import budgets, hot, ledger, turns
from agents.services.conversations import retry, say
from inbox.errors import NotAllowed
from tests.agents.kit import ask, assert_sound, last_turn, run_queued, transcript
from tests.agents.scripts import at, use
from tests.factories import ConversationFactory, UserFactory, backdate

PRICES = {"scripted": {"input": 1000, "output": 1000}}  # a thousandth a token


@pytest.fixture
def ada(db):
    return UserFactory(may=["agents.raise_budget"])


# --- Tokens and money of a day
@pytest.mark.parametrize("name", ["conversation_tokens_per_day", "agent_tokens_per_day"])
def test_tokens_of_a_day(declare, script, conversation, name):
    """The call that goes past the bound is the last: what it costs is known only afterwards."""
    declare(limits={name: 10})
    asked = script()
    assert ask(conversation) == "done"
    assert ask(conversation, "And now?") == "failed"
    turn = last_turn(conversation)
    assert turn.reason == "over_budget"
    assert "of its 10 tokens for today" in turn.error
    assert len(asked.prompts) == 1, "no model was called over budget"
    assert_sound()


@pytest.mark.parametrize("name", ["conversation_money_per_day", "agent_money_per_day"])
def test_money_of_a_day(declare, script, conversation, settings, name):
    settings.AGENT_PRICES = PRICES
    declare(limits={name: 0.01})
    assert ask(conversation) == "done"
    assert ask(conversation, "And now?") == "failed"
    assert last_turn(conversation).reason == "over_budget"
    assert "of its 0.01 for today" in last_turn(conversation).error


def test_a_step_in_the_middle_of_a_turn_counts_too(declare, script, conversation):
    declare(limits={"conversation_tokens_per_day": 10})
    script(use("glove_update_tasks", todos=[]))
    assert ask(conversation) == "failed"
    assert last_turn(conversation).reason == "over_budget"
    assert last_turn(conversation).model_calls == 1


def test_a_conversations_budget_is_its_own_and_an_agents_is_shared(declare, script, conversation):
    other = ConversationFactory(mailbox=conversation.mailbox)
    declare(limits={"conversation_tokens_per_day": 10})
    assert [ask(conversation), ask(other)] == ["done", "done"]
    declare(limits={"agent_tokens_per_day": 10})
    assert ask(other) == "failed"


def test_yesterday_is_forgotten(declare, script, conversation):
    declare(limits={"conversation_tokens_per_day": 10})
    ask(conversation)
    for call in ModelCall.objects.all():
        backdate(call, 24 * 3600, "day")
    assert ask(conversation) == "done"


def test_messages_are_accepted_and_read_when_staff_have_raised_the_budget(declare, script, conversation, ada):
    """Each message is kept; after the raise a retry, or the next message, reads them all."""
    declare(limits={"conversation_tokens_per_day": 10})
    ask(conversation)
    assert [ask(conversation, "One."), ask(conversation, "Two.")] == ["failed", "failed"]
    budgets.raise_budget(ada, "tester", conversation_id=conversation.pk, tokens=10_000)
    retry(conversation.pk)
    assert run_queued(conversation) == ["done"]
    assert [text for sender, _, text in transcript(conversation) if sender == "user"] == ["Hello.", "One.", "Two."]
    assert transcript(conversation)[-1] == ("agent", "message", "Done.")
    assert_sound()


def test_money_is_raised_too(declare, script, conversation, settings, ada):
    settings.AGENT_PRICES = PRICES
    declare(limits={"agent_money_per_day": 0.01})
    ask(conversation)
    assert ask(conversation) == "failed"
    budgets.raise_budget(ada, "tester", money=Decimal("1000"))
    assert ask(conversation) == "done"


def test_a_raise_for_one_conversation_is_not_the_agents(declare, script, conversation, ada):
    declare(limits={"agent_tokens_per_day": 10})
    ask(conversation)
    budgets.raise_budget(ada, "tester", conversation_id=conversation.pk, tokens=10_000)
    assert ask(conversation) == "failed"
    budgets.raise_budget(ada, "tester", tokens=10_000)
    assert ask(conversation) == "done"


def test_a_raise_ends_with_its_day(declare, script, conversation, ada):
    declare(limits={"conversation_tokens_per_day": 10})
    ask(conversation)
    backdate(budgets.raise_budget(ada, "tester", conversation_id=conversation.pk, tokens=10_000), 24 * 3600, "day")
    assert ask(conversation) == "failed"


def test_who_may_raise_what(agent, conversation, ada):
    other = ConversationFactory()
    Conversation.objects.filter(pk=other.pk).update(agent="planner")
    for user, wish, error in (
        (UserFactory(), {"tokens": 5}, NotAllowed),
        (ada, {}, BadBudget),
        (ada, {"tokens": -5}, BadBudget),
        (ada, {"tokens": -1, "money": Decimal(1)}, BadBudget),
        (ada, {"tokens": 5, "conversation_id": other.pk}, ConversationNotFound),
        (ada, {"tokens": 5, "conversation_id": 0}, ConversationNotFound),
    ):
        with pytest.raises(error):
            budgets.raise_budget(user, "tester", **wish)
    with pytest.raises(UnknownAgent):
        budgets.raise_budget(ada, "nobody", tokens=5)
    assert not BudgetRaise.objects.exists()


# --- The ledger
def test_each_call_has_a_row_and_the_sums_agree(declare, script, conversation, settings):
    settings.AGENT_PRICES = {"scripted": {"input": 1, "output": 1}, "scripted:default": PRICES["scripted"]}
    declare()
    script(use("glove_update_tasks", todos=[]), "All done.")
    ask(conversation)
    rows = ModelCall.objects.filter(conversation=conversation)
    turn = last_turn(conversation)
    sums = ledger.totals(rows)
    assert rows.count() == turn.model_calls == 2
    assert (sums["input_tokens"], sums["output_tokens"]) == (turn.input_tokens, turn.output_tokens)
    assert sums["cost_micros"] == 1000 * (sums["input_tokens"] + sums["output_tokens"]), "the longest name counts"
    assert {row.stop_reason for row in rows} == {"tool_use", "end_turn"}
    fresh = Conversation.objects.get(pk=conversation.pk)
    assert (fresh.input_tokens, fresh.output_tokens) == (turn.input_tokens, turn.output_tokens)


def test_a_model_that_has_no_price_costs_nothing(agent, script, conversation):
    ask(conversation)
    assert ledger.totals(ModelCall.objects.all())["cost_micros"] == 0


def test_what_a_failed_call_cost_is_counted_with_the_turn(agent, script, conversation):
    from agents.adapters import ModelError, Usage

    script(ModelError("refusal", usage=Usage(input_tokens=70, output_tokens=3)))
    ask(conversation)
    turn = last_turn(conversation)
    fresh = Conversation.objects.get(pk=conversation.pk)
    assert (turn.input_tokens, turn.output_tokens) == (fresh.input_tokens, fresh.output_tokens) == (70, 3)
    assert ledger.totals(ModelCall.objects.all())["input_tokens"] == 70


def test_a_turn_that_was_cancelled_keeps_what_it_had_spent(declare, script, conversation):
    """The call during which it was cancelled included: it was paid for, and to cancel in time is no way past a budget."""
    from agents.services.conversations import cancel

    declare(limits={"conversation_tokens_per_day": 10})
    script(at("Too late.", lambda: cancel(conversation.pk)))
    assert ask(conversation) == "fenced"
    turn = Turn.objects.get(status="cancelled")
    fresh = Conversation.objects.get(pk=conversation.pk)
    (row,) = ModelCall.objects.all()
    assert (row.error, row.stop_reason) == ("too_late", "end_turn")
    assert row.input_tokens == fresh.input_tokens == turn.input_tokens > 10
    assert row.output_tokens == fresh.output_tokens == turn.output_tokens > 0
    assert ask(conversation) == "failed"
    assert last_turn(conversation).reason == "over_budget"


def test_what_an_overtaken_worker_spent_is_counted_beside_the_others(agent, script, conversation):
    script(at("Too late.", lambda: hot.claim(backdate(last_turn(conversation), 1, "lease_until").pk, 30)))
    assert ask(conversation) == "fenced"
    turn = backdate(last_turn(conversation), 1, "lease_until")
    assert turns.start(turn.pk) == "done"
    assert list(ModelCall.objects.order_by("pk").values_list("error", flat=True)) == ["too_late", ""]
    fresh = Conversation.objects.get(pk=conversation.pk)
    assert fresh.input_tokens == ledger.totals(ModelCall.objects.all())["input_tokens"]


def test_an_attempt_is_counted_for_its_own_reply(declare, script, conversation):
    """After passing faults and a reply, the next call is a first one again."""
    from agents.adapters import ModelError

    declare()
    script(ModelError("overloaded"), use("glove_update_tasks", todos=[]), "All done.")
    assert ask(conversation) == "put_off"
    assert turns.start(backdate(last_turn(conversation), 1, "not_before").pk) == "done"
    assert list(ModelCall.objects.order_by("pk").values_list("attempt", flat=True)) == [1, 2, 1]


# --- Where limits are set
def test_an_agents_own_limits_go_before_the_settings_and_those_before_the_defaults(declare, settings):
    assert limits.limits_for(declare()) == limits.Limits()
    settings.AGENT_LIMITS = {"model_calls": 7, "give_up_s": 60}
    found = limits.limits_for(declare(limits={"model_calls": 3}))
    assert (found.model_calls, found.give_up_s, found.compactions) == (3, 60, 2)


@pytest.mark.parametrize(
    "wrong", [{"modelcalls": 3}, {"model_calls": 0}, {"lease_s": -1}, {"attempts": True}, {"grace_s": "60"}]
)
def test_a_wrong_limit_is_an_error_where_it_is_declared(declare, wrong):
    with pytest.raises(BadDeclaration):
        declare(limits=wrong)


def test_a_budget_of_zero_is_none(declare):
    assert isinstance(declare(limits={"agent_tokens_per_day": 0}), Agent)


def test_max_tokens_is_what_the_model_is_given(declare, conversation, settings):
    rooms = []

    class Adapter:
        def reply(self, *, max_tokens, **rest):
            from agents.adapters.scripted import ScriptedModel

            rooms.append(max_tokens)
            return ScriptedModel("default", {}).reply(max_tokens=max_tokens, **rest)

    declare(limits={"max_tokens": 123})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agents.loop.get_model", lambda alias: Adapter())
        assert ask(conversation) == "done"
    assert rooms == [123]


def test_a_lease_is_as_long_as_the_agent_says_from_its_first_write_on(declare, script, conversation):
    from django.utils import timezone

    declare(limits={"lease_s": 500})
    left = []
    script(at("Done.", lambda: left.append((last_turn(conversation).lease_until - timezone.now()).total_seconds())))
    ask(conversation)
    assert 490 < left[0] <= 500


def test_the_first_wait_and_the_longest_are_limits(declare, script, conversation, monkeypatch):
    from agents import bell
    from agents.adapters import ModelError
    from agents.services import turns

    waits = []
    monkeypatch.setattr(bell, "ring", lambda turn, countdown=0.0: waits.append(countdown) or True)
    declare(limits={"backoff_s": 0.5, "backoff_max_s": 2})
    script(rest=ModelError("overloaded"))
    say(conversation.pk, "Hello.")
    for _ in range(4):
        turn = last_turn(conversation)
        backdate(turn, 1, "not_before")
        assert turns.start(turn.pk) == "put_off"
    assert [wait for wait in waits if wait] == [0.5, 1, 2, 2]
