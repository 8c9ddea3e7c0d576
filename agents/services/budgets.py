"""Daily budgets of tokens and money, per conversation and per agent. A turn over budget fails until staff raise it."""

from decimal import Decimal
from typing import Any

from django.contrib.admin.models import ADDITION, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import Sum

from agents import registry
from agents.errors import BadBudget, ConversationNotFound, TurnFailed
from agents.limits import Limits
from agents.models import BudgetRaise, Conversation, ModelCall
from agents.services import ledger
from inbox.clock import today
from inbox.errors import NotAllowed


def check(conversation: Conversation, limits: Limits) -> None:
    """Raise TurnFailed("over_budget") where the day's budget is spent. Asks the database only where there is a budget."""
    conversations, agents = (
        (limits.conversation_tokens_per_day, limits.conversation_money_per_day),
        (limits.agent_tokens_per_day, limits.agent_money_per_day),
    )
    if not (any(conversations) or any(agents)):
        return
    calls = ModelCall.objects.filter(day=today())
    raises = BudgetRaise.objects.filter(day=today(), agent=conversation.agent)
    if any(conversations):
        _check(
            "conversation",
            ledger.totals(calls.filter(conversation=conversation)),
            raises.filter(conversation=conversation),
            *conversations,
        )
    if any(agents):
        _check(
            "agent",
            ledger.totals(calls.filter(agent=conversation.agent)),
            raises.filter(conversation=None),
            *agents,
        )


def raise_budget(
    user: Any, agent: str, *, conversation_id: int | None = None, tokens: int = 0, money: Decimal = Decimal(0)
) -> BudgetRaise:
    """Allow this much more today. Raises NotAllowed, UnknownAgent, ConversationNotFound, BadBudget."""
    if not user.has_perm("agents.raise_budget"):
        raise NotAllowed("You need the permission agents.raise_budget to raise a budget.")
    registry.get_agent(agent)
    if tokens < 0 or money < 0 or not (tokens or money):
        raise BadBudget
    if conversation_id is not None and not Conversation.objects.filter(pk=conversation_id, agent=agent).exists():
        raise ConversationNotFound
    with transaction.atomic():
        row = BudgetRaise.objects.create(
            agent=agent, conversation_id=conversation_id, day=today(), tokens=tokens, money=money, raised_by=user
        )
        row.refresh_from_db()
        LogEntry.objects.create(
            user_id=user.pk,
            content_type=ContentType.objects.get_for_model(BudgetRaise),
            object_id=str(row.pk),
            object_repr=str(row)[:200],
            action_flag=ADDITION,
            change_message="Raised.",
        )
    return row


def _check(whose: str, spent: dict[str, int], raises: Any, tokens: int, money: float) -> None:
    extra = raises.aggregate(tokens=Sum("tokens"), money=Sum("money"))
    used = sum(spent[name] for name in ledger.SUMS if name != "cost_micros")
    allowed = tokens + (extra["tokens"] or 0)
    if tokens and used >= allowed:
        raise TurnFailed("over_budget", f"The {whose} has used {used} of its {allowed} tokens for today (UTC).")
    cost = Decimal(spent["cost_micros"]) / 1_000_000
    sum_allowed = Decimal(str(money)) + (extra["money"] or 0)
    if money and cost >= sum_allowed:
        raise TurnFailed("over_budget", f"The {whose} has spent {cost:.4f} of its {sum_allowed} for today (UTC).")
