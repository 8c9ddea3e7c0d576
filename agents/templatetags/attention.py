"""What waits for staff besides requests, for the admin's first page."""

from typing import Any

from django import template

from agents import attention

register = template.Library()


@register.inclusion_tag("admin/agents/attention.html")
def waiting_for_staff(user: Any) -> dict[str, str]:
    """Failed turns and calls in doubt, each with a link to its list."""
    return attention.counts(user)
