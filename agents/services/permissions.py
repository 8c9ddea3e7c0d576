"""Standing decisions about tools marked `permission`, and their use."""

import datetime
import json
from typing import Any

import pydantic
from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import F, Q

from agents.errors import BadPermission, PermissionNotFound
from agents.models import Permission
from inbox.clock import clock, now
from inbox.errors import NotAllowed

REFUSED = (
    "Refused: {tool} runs only where staff have granted it for this mailbox and these arguments, and they have not. "
    "Tell the person you serve; if it matters, post a request to staff with glove_post_to_inbox."
)
DENIED = "Refused: staff have denied {tool} for this mailbox."


def spend(agent: str, tool: str, mailbox_id: int, arguments: str) -> str:
    """Use a grant for this call, in the caller's transaction: empty where it may run, else what the model is told.

    A denial that fits wins over every grant. No arguments is not any arguments; another's mailbox is not this one."""
    fits = _standing(agent, tool).filter(
        Q(mailbox=None) | Q(mailbox_id=mailbox_id), Q(scope=Permission.Scope.ANY) | Q(arguments=arguments)
    )
    found = list(fits.order_by(F("uses").desc(nulls_first=True), "pk"))
    if any(permission.decision == Permission.Decision.DENY for permission in found):
        return DENIED.format(tool=tool)
    for permission in found:
        if permission.uses is None:
            return ""
        if Permission.objects.filter(pk=permission.pk, uses__gt=0, revoked_at=None).update(uses=F("uses") - 1):
            return ""
    return REFUSED.format(tool=tool)


def standing(agent: str, tool: str, mailbox_id: int, arguments: str) -> str | None:
    """grant, deny or None for these arguments, without using anything up."""
    fits = _standing(agent, tool).filter(
        Q(mailbox=None) | Q(mailbox_id=mailbox_id), Q(scope=Permission.Scope.ANY) | Q(arguments=arguments)
    )
    decisions = set(fits.values_list("decision", flat=True))
    return "deny" if "deny" in decisions else "grant" if decisions else None


def grant(
    *,
    agent: str,
    tool: str,
    mailbox_id: int | None,
    scope: str,
    arguments: str = "",
    user: Any = None,
    decision: str = Permission.Decision.GRANT,
    expires_at: datetime.datetime | None = None,
    uses: int | None = None,
) -> Permission:
    """Record a decision. `arguments` is JSON for the scopes call and arguments; `mailbox_id` None is agent-wide, which needs a
    permission of its own. Raises BadPermission, NotAllowed."""
    if user is not None and not user.has_perm("agents.decide_permission"):
        raise NotAllowed("You need the permission agents.decide_permission to decide about tools.")
    if user is not None and mailbox_id is None and not user.has_perm("agents.decide_permission_agent_wide"):
        raise NotAllowed("A decision for every mailbox needs the permission agents.decide_permission_agent_wide.")
    if scope not in Permission.Scope.values:
        raise BadPermission(f"The scope is one of {', '.join(Permission.Scope.values)}.")
    if decision == Permission.Decision.DENY and scope == Permission.Scope.CALL:
        raise BadPermission("A denial is for these arguments or for any; one call is refused by not granting it.")
    if uses is not None and uses < 1:
        raise BadPermission("The number of uses is at least 1; leave it empty for no limit.")
    exact = "" if scope == Permission.Scope.ANY else canonical_for(agent, tool, arguments)
    with transaction.atomic():
        permission = Permission.objects.create(
            agent=agent,
            tool=tool,
            mailbox_id=mailbox_id,
            scope=scope,
            arguments=exact,
            decision=decision,
            expires_at=expires_at,
            uses=1 if scope == Permission.Scope.CALL else uses,
            decided_by=user,
        )
        _log(user, permission, ADDITION, f"{decision} {tool} ({scope}).")
    return permission


def record(*, agent: str, tool: str, mailbox_id: int, scope: str, arguments: str, decision: str) -> Permission:
    """A decision that the program itself takes, in the store's contract. `arguments` is canonical JSON already."""
    return Permission.objects.create(
        agent=agent,
        tool=tool,
        mailbox_id=mailbox_id,
        scope=scope,
        arguments="" if scope == Permission.Scope.ANY else arguments,
        decision=decision,
        uses=1 if scope == Permission.Scope.CALL else None,
    )


def revoke(permission_id: int, user: Any) -> Permission:
    """End a standing decision; again changes nothing. Raises PermissionNotFound, NotAllowed."""
    permission = Permission.objects.filter(pk=permission_id).first()
    if permission is None:
        raise PermissionNotFound
    if not user.has_perm("agents.decide_permission"):
        raise NotAllowed("You need the permission agents.decide_permission to revoke it.")
    with transaction.atomic():
        if Permission.objects.filter(pk=permission_id, revoked_at=None).update(revoked_at=clock()):
            _log(user, permission, CHANGE, "Revoked.")
    permission.refresh_from_db()
    return permission


def canonical_for(agent: str, tool: str, arguments: str) -> str:
    """These arguments in the form in which calls are compared, checked against the tool's own schema where it is declared."""
    from agents import registry  # declarations are read when they are needed, not when the app loads
    from agents.declare import canonical, faults

    try:
        given = json.loads(arguments)
    except ValueError:
        raise BadPermission('The arguments are not valid JSON. Write an object, such as {"order_id": "17"}.') from None
    if not isinstance(given, dict):
        raise BadPermission('The arguments are a JSON object, such as {"order_id": "17"}.')
    declared = next((one for one in registry.get_agent(agent).tools if one.name == tool), None)
    if declared is None:
        raise BadPermission(f"The agent {agent} has no tool named {tool}.")
    try:
        return canonical(declared.parse(given))
    except pydantic.ValidationError as error:
        raise BadPermission(f"The arguments do not fit the tool {tool}. {faults(error)}") from None
    except ValueError as error:
        raise BadPermission(f"The arguments do not fit the tool {tool}: {error}") from None


def _standing(agent: str, tool: str) -> Any:
    alive = Q(expires_at=None) | Q(expires_at__gt=now())
    return Permission.objects.filter(alive, Q(uses=None) | Q(uses__gt=0), agent=agent, tool=tool, revoked_at=None)


def _log(user: Any, permission: Permission, flag: int, message: str) -> None:
    if user is None:
        return
    LogEntry.objects.create(
        user_id=user.pk,
        content_type=ContentType.objects.get_for_model(Permission),
        object_id=str(permission.pk),
        object_repr=str(permission)[:200],
        action_flag=flag,
        change_message=message,
    )
