"""The site's settings with the crew's app, and a script for each role."""

from typing import Any

from glove_site.settings import *  # noqa: F403
from glove_site.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.mesh.crew"]


def _scripted(role: str) -> Any:
    return {
        "BACKEND": "agents.adapters.scripted.ScriptedModel",
        "OPTIONS": {"script": f"tests.mesh.crew.script.{role}"},
    }


AGENT_MODELS = {role: _scripted(role) for role in ("planner", "writer", "reviewer")}
AGENT_MODELS["default"] = AGENT_MODELS["planner"]
