"""Filters whose choices cost no look at the table."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from agents import attention, registry


class AgentFilter(admin.SimpleListFilter):
    """By agent: those that are declared."""

    title = "agent"
    parameter_name = "agent"
    field = "agent"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in sorted(registry.agents)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(**{self.field: self.value()}) if self.value() else queryset


class TurnAgentFilter(AgentFilter):
    """The same for turns."""

    field = "conversation__agent"


class LeftFilter(admin.SimpleListFilter):
    """Turns that wait for somebody to look."""

    title = "left behind"
    parameter_name = "left"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("failed", "Failed, and not tried again")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return attention.failed_turns(queryset) if self.value() == "failed" else queryset
