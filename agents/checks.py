"""System checks: what is wrong with the declarations and settings of agents, and how to mend it."""

from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from agents import adapters, registry
from agents.errors import BadDeclaration
from agents.limits import check_limits
from agents.stores.base import StoreAdapter


@register()
def check_stores(**kwargs: Any) -> list[CheckMessage]:
    """A group of the store contract is there as a whole or not at all."""
    return [
        Error(
            f"{store.__module__}.{store.__qualname__} implements a part of the {group} group.",
            hint=f"Add {', '.join(missing)}, or leave the whole group out.",
            id="agents.E001",
        )
        for store in StoreAdapter.subclasses
        for group, missing in store.half_done().items()
    ]


@register()
def check_package(**kwargs: Any) -> list[CheckMessage]:
    """Another distribution also brings a package named `agents`."""
    import agents

    here = Path(agents.__file__).resolve().parent.parent
    others = packages_distributions().get("agents", [])
    if not others or here != Path(settings.BASE_DIR).resolve():
        return []
    return [
        Error(
            f"The installed distribution {', '.join(others)} has a package named agents too, which is this project's.",
            hint="Uninstall it, or run it in an environment of its own: one of the two hides the other.",
            id="agents.E002",
        )
    ]


@register()
def check_limits_setting(**kwargs: Any) -> list[CheckMessage]:
    """AGENT_LIMITS names known limits."""
    try:
        check_limits(settings.AGENT_LIMITS)
    except BadDeclaration as error:
        return [Error(f"AGENT_LIMITS: {error}", id="agents.E003")]
    return []


@register()
def check_models(**kwargs: Any) -> list[CheckMessage]:
    """Every agent's model is a usable alias of AGENT_MODELS."""
    return adapters.check_models({agent.model for agent in registry.agents.values()})
