"""What becomes known of a call whose outcome was unknown: kept on the call, and told to the agent once, as mail `tool:<name>`."""

from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import transaction

from agents import access
from agents.errors import CallNotFound, NotInDoubt
from agents.models import Conversation, ToolCall
from agents.services import posting
from inbox import text
from inbox.clock import clock
from inbox.errors import NotAllowed
from inbox.models import Item
from inbox.services import letters


def in_doubt() -> Any:
    """The calls whose outcome nobody knows yet, oldest first."""
    rows = ToolCall.objects.filter(status=ToolCall.Status.UNKNOWN, recorded_at=None)
    return rows.select_related("turn__conversation__mailbox").order_by("pk")


def record(call_id: int, what: str, *, user: Any) -> ToolCall:
    """Staff say what really happened. Not to be called by a tool, whose turn is locked. Raises
    CallNotFound, NotAllowed, NotInDoubt (somebody was first), and text.check's errors."""
    if not user.has_perm("agents.record_outcome"):
        raise NotAllowed("You need the permission agents.record_outcome to record what happened.")
    if not access.visible_conversations(user).filter(turns__calls=call_id).exists():
        raise CallNotFound
    text.check(what, what="what happened")
    with transaction.atomic():
        call = _record(call_id, what, by=user.get_username(), via=Item.Via.ADMIN, user=user)
        LogEntry.objects.create(
            user_id=user.pk,
            content_type=ContentType.objects.get_for_model(ToolCall),
            object_id=str(call_id),
            object_repr=str(call)[:200],
            action_flag=CHANGE,
            change_message="Recorded what happened.",
        )
    return call


def record_late(call_id: int, status: str, result: str) -> bool:
    """The tool's own result, come late. False where the call is not in doubt (any more), and then nothing changes."""
    said = "It succeeded" if status == "done" else "It failed" if status == "failed" else "Its outcome is still unknown"
    if status == "unknown":
        return False
    try:
        _record(call_id, f"{said}; the result came late:\n{result}", by="the tool itself", via=Item.Via.SYSTEM)
    except (NotInDoubt, CallNotFound):
        return False
    return True


def _record(call_id: int, what: str, *, by: str, via: str, user: Any = None) -> ToolCall:
    with transaction.atomic():
        call = ToolCall.objects.select_related("turn__conversation").filter(pk=call_id).first()
        if call is None:
            raise CallNotFound
        conversation = call.turn.conversation
        # Not the mailbox, which an atomic tool may hold for as long as it runs.
        list(Conversation.objects.select_for_update(no_key=True).filter(pk=conversation.pk))
        what = text.clean(what, limit=text.MAX_BYTES)
        moved = ToolCall.objects.filter(pk=call_id, status=ToolCall.Status.UNKNOWN, recorded_at=None).update(
            recorded=what, recorded_by=by[:200], recorded_at=clock()
        )
        if not moved:
            raise NotInDoubt
        shown = text.clean(call.input, limit=4000)
        letters.drop(
            conversation.mailbox_id,
            tag=f"tool:{call.name}"[:120],
            request=f"What became of the call of {call.name} whose outcome was unknown, made with {shown}",
            response=what,
            by=by,
            via=via,
            user=user,
            origin=posting.origin(conversation.pk),
            reserved=True,
        )
        call.refresh_from_db()
    return call
