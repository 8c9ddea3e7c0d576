"""One row per model call: what it took, what it cost, how it ended; and their sums."""

from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Q, QuerySet, Sum

from agents.adapters.base import ModelError, Reply, Usage
from agents.models import ModelCall, Turn
from agents.services import hot
from agents.services.hot import Claim

SUMS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_micros")


class Account:
    """What one run of a turn spends: the turn's sums, and its model calls that are not written yet."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._rows: list[list[Any]] = []
        self._written = [claim.input_tokens, claim.output_tokens]
        self._attempt = min(claim.backoffs + 1, 32_000)
        self.tokens = list(self._written)

    def note(self, purpose: str, seconds: float, outcome: Reply | ModelError) -> None:
        """A model call, to be kept with the run's next transaction. One that gave nothing may have cost something too."""
        usage, claim = outcome.usage, self._claim
        self.tokens[0] += prompt_tokens(usage)
        self.tokens[1] += usage.output_tokens
        if isinstance(outcome, ModelError):
            model, stop, error = "", "", outcome.reason
        else:
            model, stop, error = outcome.model, outcome.stop_reason, ""
        self._rows.append(
            [
                claim.turn,
                claim.conversation,
                claim.agent,
                model[:100],
                purpose,
                self._attempt,
                usage.input_tokens,
                usage.output_tokens,
                usage.cache_read_tokens,
                usage.cache_write_tokens,
                cost_micros(model, usage),
                int(seconds * 1000),
                stop[:40],
                error[:40],
            ]
        )
        if not error:
            self._attempt = 1

    def write(self) -> None:
        """In the caller's transaction, so that a call is counted once or not at all."""
        if self._rows:
            hot.insert_model_calls(self._rows)
            self._rows, self._written = [], list(self.tokens)

    def write_too_late(self) -> None:
        """What a run has spent that is its turn's no more, because that was cancelled or taken over: its replies are nowhere, but
        they were paid for, and count against the budgets. A turn that another runs is that one's to write."""
        if not self._rows:
            return
        incoming, outgoing = (now - before for now, before in zip(self.tokens, self._written, strict=True))
        for row in self._rows:
            row[-1] = row[-1] or "too_late"
        with transaction.atomic():
            hot.lock_conversation(self._claim.conversation, tokens=(incoming, outgoing, 0))
            ended = Turn.objects.filter(pk=self._claim.turn, token=None).exclude(finished_at=None)
            ended.update(input_tokens=F("input_tokens") + incoming, output_tokens=F("output_tokens") + outgoing)
            self.write()


def prompt_tokens(usage: Usage) -> int:
    """What went in, from the cache or not."""
    return usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens


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


def days_of(calls: QuerySet[ModelCall]) -> QuerySet[ModelCall, dict[str, Any]]:
    """The sums of each day in UTC that had calls, newest first: how many there were, how many gave no reply, and SUMS."""
    days = calls.values("day").order_by("-day")
    failed = Count("pk", filter=~Q(error=""))
    return days.annotate(calls=Count("pk"), failed=failed, **{name: Sum(name) for name in SUMS})
