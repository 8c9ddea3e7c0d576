"""What a person does to an item, alike from the admin, the API and a link: the right to this object, the service, the log entry,
in one transaction."""

import hashlib
import secrets
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.db import transaction

from inbox import access
from inbox.clock import clock, now
from inbox.errors import BadDeadline, ItemNotFound, LinkGone, LinkUnknown, NotAllowed
from inbox.models import Item, ResolveLink
from inbox.services import items, letters
from inbox.services.mailboxes import find_mailbox

MAX_LINK_S = 30 * 24 * 3600


def resolve_as(user: Any, item_id: int, response: str, *, via: str) -> Item:
    """Answer as this person. Raises ItemNotFound where she may not see it, NotAllowed where she may only see it, AlreadyClosed."""
    _require(user, item_id)
    with transaction.atomic():
        item = items.resolve(item_id, response, by=user.get_username(), via=via, user=user)
        _log(user, item, f"Resolved ({via}).")
    return item


def cancel_as(user: Any, item_id: int, reason: str, *, via: str) -> Item:
    """Close without an answer, as this person."""
    _require(user, item_id)
    with transaction.atomic():
        item = items.cancel(item_id, reason, by=user.get_username(), via=via, user=user)
        _log(user, item, f"Cancelled ({via}).")
    return item


def drop_as(user: Any, *, mailbox: str, tag: str, request: str, response: str, via: str) -> Item:
    """Tell an agent something that it did not ask. Not with a tag that has a group: it would look like that group's answer."""
    if not user.has_perm("inbox.drop_item"):
        raise NotAllowed("You need the permission inbox.drop_item to drop mail.")
    found = find_mailbox(mailbox)
    if found is None or not (user.is_superuser or found.owner_id in (None, user.pk) or access.is_desk(user)):
        raise ItemNotFound(f"There is no mailbox {mailbox!r} that you may write to. Check the address.")
    if access.tag_has_group(tag):
        raise NotAllowed(f"The tag {tag} is answered by a group; mail with it cannot be dropped.")
    with transaction.atomic():
        item = letters.drop(
            found.pk, tag=tag, request=request, response=response, by=user.get_username(), via=via, user=user
        )
        _log(user, item, f"Dropped ({via}).")
    return item


def make_link(user: Any, item_id: int, *, expires_in_s: int = 24 * 3600) -> tuple[ResolveLink, str]:
    """A link that answers this one item, and its token, which is not kept. It dies with its maker's right."""
    if not 60 <= expires_in_s <= MAX_LINK_S:
        raise BadDeadline(f"expires_in_s is between 60 and {MAX_LINK_S} seconds.")
    item = _require(user, item_id)
    token = secrets.token_urlsafe(32)
    with transaction.atomic():
        # Locked while it is still pending: a link for a closed item would be dead at birth.
        if not Item.objects.select_for_update(no_key=True).filter(pk=item_id, status=Item.Status.PENDING).exists():
            items.refuse(item_id, "")
        link = ResolveLink.objects.create(
            item=item, token_hash=_hash(token), maker=user, expires_at=clock(expires_in_s)
        )
        link.refresh_from_db()
        _log(user, item, f"Made link {link.pk}.")
    return link, token


def revoke_link(user: Any, link_id: int) -> bool:
    """Kill a link; false where it was dead already. For whoever may answer its item."""
    link = ResolveLink.objects.select_related("item__mailbox").filter(pk=link_id).first()
    if link is None or not access.may_see(user, link.item):
        raise LinkUnknown
    if not access.may_resolve(user, link.item):
        raise NotAllowed
    with transaction.atomic():
        moved = ResolveLink.objects.filter(pk=link_id, revoked_at=None).update(revoked_at=clock())
        if moved:
            _log(user, link.item, f"Revoked link {link_id}.")
    return bool(moved)


def find_link(token: str) -> ResolveLink:
    """The living link of this token. Raises LinkUnknown, or LinkGone: expired, revoked, or its maker lost the right."""
    links = ResolveLink.objects.select_related("item__mailbox", "maker").filter(token_hash=_hash(token))
    link = links.first()
    if link is None:
        raise LinkUnknown
    if link.revoked_at or not links.filter(expires_at__gt=now()).exists():
        raise LinkGone
    # A fresh user: permissions are cached on the instance.
    maker = get_user_model().objects.get(pk=link.maker_id)
    if not access.may_resolve(maker, link.item):
        raise LinkGone
    return link


def resolve_by_link(token: str, response: str) -> Item:
    """Answer by a link: in its maker's name, since it was her right."""
    link = find_link(token)
    with transaction.atomic():
        item = items.resolve(
            link.item_id, response, by=f"a link by {link.maker.get_username()}", via=Item.Via.LINK, user=link.maker
        )
        _log(link.maker, item, f"Resolved (link {link.pk}).")
    return item


def _require(user: Any, item_id: int) -> Item:
    item = Item.objects.select_related("mailbox").filter(pk=item_id).first()
    if item is None or not access.may_see(user, item):
        raise ItemNotFound
    if not access.may_resolve(user, item):
        raise NotAllowed(f"You may see this item, but {item.tag} is for others to answer. Ask one of them.")
    return item


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def _log(user: Any, item: Item, message: str) -> None:
    LogEntry.objects.create(
        user_id=user.pk,
        content_type=ContentType.objects.get_for_model(Item),
        object_id=str(item.pk),
        object_repr=str(item)[:200],
        action_flag=CHANGE,
        change_message=message,
    )
