"""System checks: what is wrong with the settings and declarations of the mesh, and how to mend it."""

from dataclasses import fields
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured

from agents import registry
from mesh.declare import declared
from mesh.limits import MeshLimits
from mesh.transports import Transport, get_transport

BACKEND = "mesh.transports.database.DatabaseTransport"
LEAST = {"hops": 0, "messages_per_minute": 1, "wait_s": 1}
MOST = {"wait_s": 366 * 24 * 3600}


@register()
def check_transports(**kwargs: Any) -> list[CheckMessage]:
    """MESH_TRANSPORTS has a usable default."""
    hint = f'MESH_TRANSPORTS = {{"default": {{"BACKEND": "{BACKEND}"}}}}'
    try:
        transport: Any = get_transport()
    except ImproperlyConfigured as error:
        return [Error(str(error), hint=hint, id="mesh.E001")]
    except Exception as error:
        return [Error(f"MESH_TRANSPORTS['default'] cannot be used: {error}", hint=hint, id="mesh.E001")]
    if not isinstance(transport, Transport):
        return [Error("MESH_TRANSPORTS['default'] is not a subclass of Transport.", hint=hint, id="mesh.E001")]
    return []


@register()
def check_limits(**kwargs: Any) -> list[CheckMessage]:
    """MESH_LIMITS names known limits, whole numbers all."""
    given: Any = settings.MESH_LIMITS
    known = [field.name for field in fields(MeshLimits)]
    if not isinstance(given, dict):
        return [Error("MESH_LIMITS must be a dict.", hint=f"Its keys: {', '.join(known)}.", id="mesh.E002")]
    return [
        Error(f"MESH_LIMITS: {problem}", hint=f"Its keys: {', '.join(known)}.", id="mesh.E002")
        for name, value in given.items()
        if (problem := _problem(name, value, known))
    ]


@register()
def check_peers(**kwargs: Any) -> list[CheckMessage]:
    """Every declared address names an agent that is declared, or none."""
    return [
        Error(
            f"The peer {one.address} names the agent {one.agent!r}, which is not declared.",
            hint="Declare it in a glove.py, or leave the agent out for a program outside.",
            id="mesh.E003",
        )
        for one in declared.values()
        if one.agent and one.agent not in registry.agents
    ]


def _problem(name: Any, value: Any, known: list[str]) -> str:
    if name not in known:
        return f"there is no limit {name!r}."
    if not isinstance(value, int) or isinstance(value, bool) or not LEAST[name] <= value <= MOST.get(name, value):
        return f"{name} is a whole number of at least {LEAST[name]}, not {value!r}."
    return ""
