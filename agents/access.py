"""Who may see which conversation: its owner, and whoever holds the view permission."""

from typing import Any

from django.db.models import QuerySet

from agents.models import Conversation, Permission
from inbox.models import Mailbox


def visible_conversations(user: Any) -> QuerySet[Conversation]:
    """The conversations that this user may see."""
    if not user.is_active:
        return Conversation.objects.none()
    if user.has_perm("agents.view_conversation"):
        return Conversation.objects.all()
    return Conversation.objects.filter(owner=user)


def may_write(user: Any, conversation: Conversation) -> bool:
    """Whether this user may talk in it, close it, cancel and retry its turns: the owner, and holders of the change permission."""
    return user.is_active and (conversation.owner_id == user.pk or user.has_perm("agents.change_conversation"))


def may_see_usage(user: Any) -> bool:
    """Whether this user may see the sums over all conversations of an agent."""
    return user.is_active and user.has_perms(["agents.view_conversation", "agents.view_modelcall"])


def visible_permissions(user: Any) -> QuerySet[Permission]:
    """Standing decisions about one's own mailboxes; all of them with the right to decide or to view them."""
    if not user.is_active:
        return Permission.objects.none()
    if user.has_perm("agents.decide_permission") or user.has_perm("agents.view_permission"):
        return Permission.objects.all()
    return Permission.objects.filter(mailbox__in=Mailbox.objects.filter(owner=user))
