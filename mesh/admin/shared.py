"""What the pages of the mesh share."""

from typing import Any

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from inbox.templatetags.desk import inline

MANAGE = "mesh.manage_mesh"
RECENT = 20


def page(name: str, row: Any, text: object = "") -> SafeString:
    """A row as a link to its page."""
    return format_html('<a href="{}">{}</a>', reverse(f"admin:mesh_{name}_change", args=[row.pk]), inline(text or row))
