"""The bounds of a turn: defaults, overridden by settings.AGENT_LIMITS, overridden by an agent's own `limits=`."""

from dataclasses import dataclass, fields, replace
from typing import Any

from django.conf import settings

from agents.errors import BadDeclaration


@dataclass(frozen=True)
class Limits:
    """Counts are per turn. Seconds end in `_s`."""

    model_calls: int = 50
    attempts: int = 3  # lapsed leases since the last progress
    compactions: int = 2
    compact_at_tokens: int = 100_000
    max_tokens: int = 4096  # of one reply
    lease_s: int = 30
    grace_s: int = 60
    backoff_s: float = 1.5  # the first wait after a passing model fault, doubled each time
    backoff_max_s: int = 300
    give_up_s: int = 24 * 3600  # after so long of nothing but passing faults
    # Budgets of a UTC day; 0: none. Money is in the currency of AGENT_PRICES.
    conversation_tokens_per_day: int = 0
    agent_tokens_per_day: int = 0
    conversation_money_per_day: float = 0
    agent_money_per_day: float = 0


def check_limits(limits: dict[str, Any]) -> dict[str, Any]:
    """The same limits, or BadDeclaration for an unknown name or a value that is not a positive number."""
    known = {field.name for field in fields(Limits)}
    for name, value in limits.items():
        if name not in known:
            raise BadDeclaration(f"{name!r} is not a limit. The limits are {', '.join(sorted(known))}.")
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or value < 0
            or (not value and not name.endswith("_per_day"))
        ):
            raise BadDeclaration(f"The limit {name} must be a positive number (0 for no budget), not {value!r}.")
    return limits


def limits_for(agent: Any) -> Limits:
    """The bounds of this agent's turns."""
    return replace(Limits(), **{**settings.AGENT_LIMITS, **agent.limits})
