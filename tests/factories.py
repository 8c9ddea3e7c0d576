"""Rows in a named state, made directly: `ItemFactory(resolved=True)`, `TurnFactory(running=True)`.

What a state demands comes with it, parents included. Times are the present; `backdate` moves them.
"""

from datetime import timedelta
from typing import Any

import factory
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db.models import Max
from django.utils import timezone
from factory.django import DjangoModelFactory

from agents import models as agents
from inbox import models as inbox

now = factory.LazyFunction(timezone.now)


def backdate(row: Any, seconds: float, *columns: str) -> Any:
    """Move these times of a row into the past, or with negative seconds into the future. Returns the row as it is then."""
    moment = timezone.now() - timedelta(seconds=seconds)
    type(row)._default_manager.filter(pk=row.pk).update(**dict.fromkeys(columns, moment))
    return fresh(row)


def fresh(row: Any) -> Any:
    """The row as the database has it now."""
    return type(row)._default_manager.get(pk=row.pk)


class UserFactory(DjangoModelFactory):
    """`UserFactory(may=["inbox.resolve_item"], groups=["finance"])`."""

    class Meta:
        model = get_user_model()
        skip_postgeneration_save = True

    username = factory.Sequence(lambda n: f"person{n}")

    @classmethod
    def _create(cls, model, *args, may=(), groups=(), **columns):
        user = super()._create(model, *args, **columns)
        for permission in may:
            app, _, codename = permission.partition(".")
            user.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
        user.groups.set([Group.objects.get_or_create(name=name)[0] for name in groups])
        return fresh(user)


class MailboxFactory(DjangoModelFactory):
    class Meta:
        model = inbox.Mailbox

    address = factory.Sequence(lambda n: f"tester/{n}")
    agent = "tester"


class TagGroupFactory(DjangoModelFactory):
    """`TagGroupFactory(pattern="approval:*", of=["finance"])`."""

    class Meta:
        model = inbox.TagGroup

    @classmethod
    def _create(cls, model, *args, of=(), **columns):
        row = super()._create(model, *args, **columns)
        row.groups.set([Group.objects.get_or_create(name=name)[0] for name in of])
        return row


class ItemFactory(DjangoModelFactory):
    """Pending, or with `resolved`, `consumed`, `withdrawn`."""

    class Meta:
        model = inbox.Item

    mailbox = factory.SubFactory(MailboxFactory)
    tag = "restock:beans"
    request = factory.Sequence(lambda n: f"Are the beans in? ({n})")

    class Params:
        answered = factory.Trait(
            response="Since noon.",
            outcome="answered",
            resolved_at=now,
            resolved_by="somebody",
            resolved_via="admin",
            rung=True,
        )
        resolved = factory.Trait(answered=True, status="resolved")
        consumed = factory.Trait(answered=True, status="consumed", consumed_at=now)
        withdrawn = factory.Trait(consumed=True, outcome="withdrawn", response="", resolved_via="system")


class ConversationFactory(DjangoModelFactory):
    """Open, or with `closed`. `said` are messages that it holds already, from the user and the agent in turn."""

    class Meta:
        model = agents.Conversation

    mailbox = factory.SubFactory(MailboxFactory)
    agent = factory.SelfAttribute("mailbox.agent")
    owner = factory.SelfAttribute("mailbox.owner")

    class Params:
        closed = factory.Trait(status="closed", closed_at=now)

    @classmethod
    def _create(cls, model, *args, said=(), **columns):
        conversation = super()._create(model, *args, **columns)
        for index, text in enumerate(said):
            MessageFactory(conversation=conversation, sender=("user", "agent")[index % 2], text=text, received=True)
        return conversation


class MessageFactory(DjangoModelFactory):
    """A user's, waiting to be received; with `received` it has the next place."""

    class Meta:
        model = agents.Message

    conversation = factory.SubFactory(ConversationFactory)
    sender = "user"
    text = factory.Sequence(lambda n: f"Hello. ({n})")

    class Params:
        received = factory.Trait(place=factory.LazyAttribute(lambda row: _next_place(row.conversation)))


class TurnFactory(DjangoModelFactory):
    """Queued, or with `running`, `waiting`, `done`, `failed`, `cancelled`."""

    class Meta:
        model = agents.Turn

    conversation = factory.SubFactory(ConversationFactory)
    not_before = now

    class Params:
        running = factory.Trait(
            status="running",
            token=factory.Sequence(lambda n: n + 1),
            lease_until=factory.LazyFunction(lambda: timezone.now() + timedelta(seconds=30)),
            started_at=now,
        )
        waiting = factory.Trait(status="waiting", started_at=now)
        done = factory.Trait(status="done", started_at=now, finished_at=now)
        failed = factory.Trait(status="failed", reason="refusal", started_at=now, finished_at=now)
        cancelled = factory.Trait(status="cancelled", reason="cancelled", finished_at=now)


class ToolCallFactory(DjangoModelFactory):
    """Pending, or with `running`, `done`, `failed`, `unknown`, `waiting`, `deferred`, `denied`, `aborted`."""

    class Meta:
        model = agents.ToolCall

    turn = factory.SubFactory(TurnFactory, running=True)
    message = factory.SubFactory(
        MessageFactory,
        conversation=factory.SelfAttribute("..turn.conversation"),
        sender="agent",
        received=True,
        turn=factory.SelfAttribute("..turn"),
    )
    position = 0
    call_id = factory.Sequence(lambda n: f"toolu_{n}")
    name = "work"
    input = "{}"

    class Params:
        running = factory.Trait(status="running", started_at=now)
        ended = factory.Trait(started_at=now, finished_at=now)
        done = factory.Trait(ended=True, status="done", result="Done.")
        failed = factory.Trait(ended=True, status="failed", result="Broken.")
        unknown = factory.Trait(ended=True, status="unknown")
        waiting = factory.Trait(status="waiting")
        deferred = factory.Trait(status="deferred")
        denied = factory.Trait(status="denied", finished_at=now)
        aborted = factory.Trait(status="aborted", finished_at=now)


class PermissionFactory(DjangoModelFactory):
    """A grant of any arguments for one mailbox."""

    class Meta:
        model = agents.Permission

    agent = "tester"
    tool = "work"
    mailbox = factory.SubFactory(MailboxFactory)
    decision = "grant"
    scope = "any"


def _next_place(conversation: agents.Conversation) -> int:
    last = agents.Message.objects.filter(conversation=conversation).aggregate(last=Max("place"))["last"]
    return (last or 0) + 1
