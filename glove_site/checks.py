"""What an operator would not notice: settings that work, and do not do what production is for."""

from typing import Any

from django.conf import settings
from django.core import checks

SCRIPTED = "agents.adapters.scripted.ScriptedModel"


@checks.register(checks.Tags.security, deploy=True)
def check_model(**kwargs: Any) -> list[checks.CheckMessage]:
    """For `check --deploy`, and for the worker, which logs it when it starts: the default model is nobody's."""
    default: dict[str, Any] = settings.AGENT_MODELS.get("default", {})
    if default.get("BACKEND") != SCRIPTED or default.get("OPTIONS", {}).get("script"):
        return []
    return [
        checks.Warning(
            "No model is set: agents repeat what they are told.",
            hint="Set ANTHROPIC_API_KEY for web and workers alike, or a default in AGENT_MODELS.",
            id="glove_site.W001",
        )
    ]
