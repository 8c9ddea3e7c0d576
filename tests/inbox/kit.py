"""Making what the inbox's tests stand on."""

import itertools
from typing import Any

from django.contrib.auth.models import Group, Permission, User

from inbox.models import Item, Mailbox, TagGroup
from inbox.services import items
from inbox.services.mailboxes import open_mailbox

_numbers = itertools.count(1)


def a_mailbox(owner: Any = None) -> Mailbox:
    """A mailbox at an address of its own."""
    return open_mailbox(f"helper/{next(_numbers)}", agent="helper", owner=owner)


def a_request(tag: str = "restock:beans", request: str = "Are the beans in?", **options: Any) -> Item:
    """A pending item, in a mailbox of its own unless one is named."""
    mailbox = options.pop("mailbox", None) or a_mailbox()
    return items.post(mailbox.pk, tag=tag, request=request, **options)


def a_person(*permissions: str, groups: tuple[str, ...] = (), **columns: Any) -> User:
    """A user with these permissions of the inbox, in these groups."""
    user = User.objects.create_user(columns.pop("username", f"person{next(_numbers)}"), **columns)
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="inbox", codename__in=permissions))
    user.groups.set([Group.objects.get_or_create(name=name)[0] for name in groups])
    return User.objects.get(pk=user.pk)


def guard(pattern: str, *groups: str) -> TagGroup:
    """Let these groups alone answer the tags that fit."""
    row = TagGroup.objects.create(pattern=pattern)
    row.groups.set([Group.objects.get_or_create(name=name)[0] for name in groups])
    return row


def now_of(item: Item) -> Item:
    """The item as it stands in the database."""
    return Item.objects.select_related("mailbox").get(pk=item.pk)
