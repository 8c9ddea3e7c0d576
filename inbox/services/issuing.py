"""What staff do to keys and schedules, with a log entry each."""

from collections.abc import Iterable
from typing import Any

from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import models, transaction

from inbox.errors import NotAllowed
from inbox.models import ApiKey, Mailbox
from inbox.services import keys


def issue_key_as(
    user: Any, name: str, *, owner: Any, scopes: Iterable[str] = (), peer: Mailbox | None = None
) -> tuple[ApiKey, str]:
    """A key for `owner`, and its plaintext, which is kept nowhere. Nobody gives away more than she has: the owner is herself,
    or one whose permissions and groups are all hers; a scope that reaches beyond its user's rights is hers too; and the peer is
    the owner's own, or nobody's where she looks after the mesh, or the key would speak there in another's name. Raises NotAllowed,
    BadScope, and the errors of the name."""
    if not user.has_perm("inbox.add_apikey"):
        raise NotAllowed("You need the permission inbox.add_apikey to issue keys.")
    if not may_issue_for(user, owner):
        raise NotAllowed(
            f"{owner.get_username()} may do things that you may not; have somebody issue this key who may."
        )
    scopes = list(scopes)
    if "mailboxes" in scopes and not user.has_perm("inbox.mailboxes"):
        raise NotAllowed("You need the permission inbox.mailboxes to give the scope mailboxes.")
    if peer is not None and peer.owner_id not in (None, owner.pk):
        raise NotAllowed(f"{peer} is not {owner.get_username()}'s mailbox. Issue the key for its owner.")
    if peer is not None and peer.owner_id is None and not user.has_perm("mesh.manage_mesh"):
        raise NotAllowed(
            "You need the permission mesh.manage_mesh to issue a key that speaks for an address without an owner."
        )
    with transaction.atomic():
        key, plaintext = keys.create_key(owner, name, scopes, peer=peer)
        log(user, key, ADDITION, f"Issued for {owner.get_username()}.")
    return key, plaintext


def may_issue_for(user: Any, owner: Any) -> bool:
    """Whether a key of this owner lets its holder do nothing that the user may not do."""
    if user.is_superuser or user.pk == owner.pk:
        return True
    if owner.is_superuser or not owner.is_active:
        return False
    groups = set(owner.groups.values_list("pk", flat=True))
    hers = set(user.groups.values_list("pk", flat=True))
    return owner.get_all_permissions() <= user.get_all_permissions() and groups <= hers


def revoke_key_as(user: Any, key: ApiKey) -> bool:
    """Kill a key; false where it was dead already. Raises NotAllowed."""
    if not user.has_perm("inbox.change_apikey"):
        raise NotAllowed("You need the permission inbox.change_apikey to revoke keys.")
    with transaction.atomic():
        if revoked := keys.revoke_key(key.pk):
            log(user, key, CHANGE, "Revoked.")
    return revoked


def log(user: Any, row: models.Model, flag: int, message: str) -> None:
    """The admin's log entry of an act."""
    LogEntry.objects.create(
        user_id=user.pk,
        content_type=ContentType.objects.get_for_model(row),
        object_id=str(row.pk),
        object_repr=str(row)[:200],
        action_flag=flag,
        change_message=message,
    )
