"""The groups that most sites need, and what each may do. People are put into groups of tags (tag groups) besides."""

from django.contrib.auth.models import Group, Permission
from django.db import transaction

VIEWER = (
    "inbox.view_item",
    "inbox.view_mailbox",
    "agents.view_conversation",
    "agents.view_turn",
)
RESOLVER = (*VIEWER, "inbox.resolve_item", "inbox.view_cannedanswer", "inbox.view_resolvelink")
AUDITOR = (
    *VIEWER,
    "inbox.view_apikey",
    "inbox.view_cannedanswer",
    "inbox.view_declaredschedule",
    "inbox.view_notification",
    "inbox.view_resolvelink",
    "inbox.view_resolverrun",
    "inbox.view_taggroup",
    "agents.view_budgetraise",
    "agents.view_modelcall",
    "agents.view_permission",
    "agents.view_toolcall",
    "mesh.view_delivery",
    "mesh.view_message",
    "mesh.view_peer",
    "mesh.view_stoppedchain",
)
OPERATOR = (
    *AUDITOR,
    "inbox.add_apikey",
    "inbox.change_apikey",
    "inbox.add_cannedanswer",
    "inbox.change_cannedanswer",
    "inbox.delete_cannedanswer",
    "inbox.add_taggroup",
    "inbox.change_taggroup",
    "inbox.delete_taggroup",
    "inbox.drop_item",
    "agents.change_conversation",
    "agents.decide_permission",
    "agents.raise_budget",
    "agents.record_outcome",
    "django_celery_beat.change_periodictask",
    "mesh.manage_mesh",
)
# Not in any role: agents.decide_permission_agent_wide. A grant for every mailbox is given to people one by one.
ROLES = {"viewer": VIEWER, "resolver": RESOLVER, "auditor": AUDITOR, "operator": OPERATOR}


@transaction.atomic
def set_up_roles() -> dict[str, list[str]]:
    """Make each role's group hold at least these permissions. What a person added stays. Returns what was added, by role."""
    known = {
        f"{permission.content_type.app_label}.{permission.codename}": permission
        for permission in Permission.objects.select_related("content_type")
    }
    added: dict[str, list[str]] = {}
    for name, wanted in ROLES.items():
        group, _ = Group.objects.get_or_create(name=name)
        held = set(group.permissions.values_list("pk", flat=True))
        missing = [label for label in dict.fromkeys(wanted) if known[label].pk not in held]
        group.permissions.add(*(known[label] for label in missing))
        added[name] = missing
    return added
