"""What the pages of the mesh share."""

from typing import Any

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from inbox.templatetags.desk import inline

MANAGE = "mesh.manage_mesh"
RECENT = 20


def known(*facts: tuple[str, Any]) -> list[tuple[str, Any]]:
    """Those of the facts that there are."""
    return [(name, value) for name, value in facts if value not in (None, "")]


def turn_link(user: Any, turn: int | str | None) -> SafeString | str:
    """A turn as a link to its page, for whoever may see turns."""
    if turn is None or not user.has_perm("agents.view_turn"):
        return str(turn or "")
    return format_html('<a href="{}">{}</a>', reverse("admin:agents_turn_change", args=[turn]), turn)


def page(name: str, row: Any, text: object = "") -> SafeString:
    """A row as a link to its page."""
    return format_html('<a href="{}">{}</a>', reverse(f"admin:mesh_{name}_change", args=[row.pk]), inline(text or row))
