"""What of the mesh waits for staff, for the admin's first page."""

from typing import Any

from django import template

from mesh.models import Delivery, StoppedChain

register = template.Library()

COUNTED = 100  # more are told as such


@register.inclusion_tag("admin/mesh/attention.html")
def mesh_waiting_for_staff(user: Any) -> dict[str, str]:
    """Dead deliveries that nobody closed, and stopped chains of which nobody took note; as far as this person may see them."""
    dead = Delivery.objects.filter(status=Delivery.Status.DEAD, closed_at=None)
    unseen = StoppedChain.objects.filter(seen_by=None)
    return {
        "dead": _count(dead) if user.has_perm("mesh.view_delivery") else "",
        "chains": _count(unseen) if user.has_perm("mesh.view_stoppedchain") else "",
    }


def _count(rows: Any) -> str:
    count = rows[: COUNTED + 1].count()
    return f"{COUNTED}+" if count > COUNTED else str(count or "")
