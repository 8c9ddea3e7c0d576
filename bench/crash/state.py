"""What the driver sets up and asks of the database."""

from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import InterfaceError, InternalError, OperationalError, connection
from django.db.models import OuterRef, Subquery

from agents.models import Conversation, Message, ToolCall, Turn
from bench.crash.points import TABLE
from inbox.models import Item
from inbox.services import keys, schedules


def prepare() -> str:
    """Tables, a person, her key."""
    call_command("migrate", verbosity=0, interactive=False)
    schedules.sync_schedules()
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {TABLE} (call text NOT NULL, token text NOT NULL)")
    person = User.objects.create_superuser("ada", password=None)
    return keys.create_key(person, "crash")[1]


def unsettled() -> list[str]:
    try:
        turns = Turn.objects.filter(status__in=["queued", "running", "waiting"])
        return [
            *(f"turn {t.pk} is {t.status}, reason {t.reason!r}, attempts {t.attempts}" for t in turns),
            *(f"message {m.pk} waits" for m in Message.objects.filter(place=None)),
            *(f"item {i.pk} is {i.status}, tag {i.tag}" for i in Item.objects.exclude(status="consumed")),
            *(f"conversation {talk} ended otherwise" for talk in to_retry()),
        ]
    except (OperationalError, InternalError, InterfaceError) as error:
        connection.close()
        return [f"the database does not answer: {error}"]


def to_retry() -> list[int]:
    """Conversations whose last turn failed or was cancelled."""
    last = Turn.objects.filter(conversation=OuterRef("pk")).order_by("-pk").values("status")[:1]
    ended = Conversation.objects.annotate(last=Subquery(last)).filter(last__in=["failed", "cancelled"])
    return list(ended.values_list("pk", flat=True))


def unknown() -> int:
    return ToolCall.objects.filter(status="unknown").count()
