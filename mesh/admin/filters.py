"""Filters whose choices cost no look at the table."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from agents import registry
from mesh.declare import declared
from mesh.models import Delivery
from mesh.services.joining import capabilities_of


class _YesNo(admin.SimpleListFilter):
    """Two choices, each with its condition."""

    yes: tuple[str, dict[str, Any]]
    no: tuple[str, dict[str, Any]] | None = None

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", self.yes[0]), *([("no", self.no[0])] if self.no else [])]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = {"yes": self.yes, "no": self.no}.get(self.value() or "")
        return queryset.filter(**chosen[1]) if chosen else queryset


class AttentionFilter(_YesNo):
    """Dead deliveries that nobody has sent again or closed."""

    title, parameter_name = "attention", "attention"
    yes = ("needs attention", {"status": Delivery.Status.DEAD, "closed_at": None})


class SeenFilter(_YesNo):
    """Stopped chains of which somebody took note."""

    title, parameter_name = "attention", "seen"
    yes = ("seen", {"seen_by__isnull": False})
    no = ("needs attention", {"seen_by": None})


class RetiredFilter(_YesNo):
    """Who is on the mesh."""

    title, parameter_name = "state", "retired"
    yes = ("retired", {"retired_at__isnull": False})
    no = ("on the mesh", {"retired_at": None})


class CapabilityFilter(admin.SimpleListFilter):
    """By what a peer can do: as far as it is declared."""

    title, parameter_name = "capability", "capability"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        agents = (name for agent in registry.agents.values() if agent.mesh for name in agent.capabilities)
        names = sorted({*agents, *(name for one in declared.values() for name in capabilities_of(one))})
        return [(name, name) for name in names]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(capabilities__name=self.value()) if self.value() else queryset
