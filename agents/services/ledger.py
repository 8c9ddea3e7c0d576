"""One row per model call: what it took, what it cost, how it ended; and their sums."""

import datetime
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db.models import QuerySet, Sum

from agents.adapters.base import ModelError, Reply, Usage
from agents.models import Conversation, ModelCall
from agents.services.hot import Claim
from inbox.clock import today

SUMS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_micros")


def entry(
    claim: Claim, conversation: Conversation, purpose: str, seconds: float, outcome: Reply | ModelError, *, attempt: int
) -> ModelCall:
    """The row, not yet written."""
    failed = isinstance(outcome, ModelError)
    model = "" if failed else outcome.model
    usage = outcome.usage
    return ModelCall(
        turn_id=claim.turn,
        conversation_id=conversation.pk,
        agent=conversation.agent,
        day=today(),
        model=model[:100],
        purpose=purpose,
        attempt=min(attempt, 32_000),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cost_micros=cost_micros(model, usage),
        duration_ms=int(seconds * 1000),
        stop_reason="" if failed else outcome.stop_reason[:40],
        error=outcome.reason if failed else "",
    )


def write(rows: list[ModelCall]) -> None:
    """In the caller's transaction, so that a call is counted once or not at all."""
    ModelCall.objects.bulk_create(rows)


def cost_micros(model: str, usage: Usage) -> int:
    """Millionths of the currency. AGENT_PRICES gives prices per million tokens, by the model's id or its longest prefix."""
    prices = settings.AGENT_PRICES
    known = max((name for name in prices if model.startswith(name)), key=len, default=None)
    if known is None:
        return 0
    price = {kind: Decimal(str(value)) for kind, value in prices[known].items()}
    cost = (
        usage.input_tokens * price.get("input", Decimal(0))
        + usage.output_tokens * price.get("output", Decimal(0))
        + usage.cache_read_tokens * price.get("cache_read", Decimal(0))
        + usage.cache_write_tokens * price.get("cache_write", Decimal(0))
    )
    return int(cost.to_integral_value())


def totals(calls: QuerySet[ModelCall]) -> dict[str, int]:
    """The sums over these calls, zero where there are none."""
    found = calls.aggregate(**{name: Sum(name) for name in SUMS})
    return {name: found[name] or 0 for name in SUMS}


def by_day(agent: str, since: datetime.date) -> list[dict[str, Any]]:
    """The agent's sums for each day from `since` on, newest first."""
    days = ModelCall.objects.filter(agent=agent, day__gte=since).values("day").order_by("-day")
    return list(days.annotate(**{name: Sum(name) for name in SUMS}))
