"""`check_invariants`: each promise is broken once in the data, behind the back of the constraints, and is reported."""

import io
import json
import re

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import F

from agents import invariants as agents_invariants
from agents.models import Conversation, Message, ToolCall, Turn
from agents.services import conversations, turns
from inbox import invariants
from inbox.clock import clock
from inbox.models import EarlyAnswer, Item, Mailbox, Notification
from inbox.services import items

pytestmark = pytest.mark.django_db

CHECKED = {
    "inbox_item": ["item_shape", "item_outcome", "item_quiet_is_rung"],
    "agents_turn": ["turn_shape"],
    "agents_toolcall": ["call_shape"],
    "agents_conversation": ["conversation_shape"],
}
UNIQUE = {
    "agents_turn": ["turn_one_open"],
    "agents_message": ["message_place_once", "message_item_once"],
    "inbox_mailbox": ["mailbox_address_unique"],
}


@pytest.fixture
def unguarded(db):
    """The database takes whatever it is given, until the test's transaction is rolled back."""
    with connection.cursor() as cursor:
        for table, names in UNIQUE.items():
            for name in names:
                (drop_on_postgres if connection.vendor == "postgresql" else drop_on_sqlite)(cursor, table, name)
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL session_replication_role = replica")  # no triggers
            for table, names in CHECKED.items():
                for name in names:
                    drop_on_postgres(cursor, table, name)
        else:
            cursor.execute("PRAGMA ignore_check_constraints = ON")
    yield
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA ignore_check_constraints = OFF")


def drop_on_postgres(cursor, table, name):
    cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {name}")
    cursor.execute(f"DROP INDEX IF EXISTS {name}")


def drop_on_sqlite(cursor, table, name):
    """An index goes; a constraint goes with its table, which is still empty, and is made anew without it."""
    if cursor.execute("SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = %s", [name]).fetchone():
        cursor.execute(f"DROP INDEX {name}")
        return
    (sql,) = cursor.execute("SELECT sql FROM sqlite_master WHERE name = %s", [table]).fetchone()
    cursor.execute(f"DROP TABLE {table}")
    cursor.execute(re.sub(rf', CONSTRAINT "{name}" UNIQUE \([^)]*\)', "", sql))


@pytest.fixture
def world(unguarded, stormy):
    """A conversation in which everything has happened once, by the services themselves."""
    return World()


class World:
    def __init__(self):
        self.mailbox = Mailbox.objects.create(address="storm/ada", agent="storm")
        self.conversation = conversations.open_conversation(self.mailbox.pk)
        self.say("word:one wish:post")
        self.say("word:two wish:work")
        self.item = Item.objects.get()
        items.resolve(self.item.pk, "So it is.", by="sam", via="admin")
        self.say("word:three wish:again")
        self.pending = items.post(self.mailbox.pk, tag="storm:more", request="And more?", origin=self.conversation.pk)

    def say(self, text):
        conversations.say(self.conversation.pk, text)
        assert turns.start(Turn.objects.get(status="queued").pk) == "done"

    @property
    def turns(self):
        return Turn.objects.filter(conversation=self.conversation).order_by("pk")

    @property
    def messages(self):
        return Message.objects.filter(conversation=self.conversation).order_by("place")

    def turn(self, **columns):
        given = {"conversation": self.conversation, "not_before": clock(), **columns}
        return Turn.objects.create(**given)


def test_what_the_services_do_keeps_every_promise(world):
    assert Item.objects.get(pk=world.item.pk).status == "consumed"
    assert ToolCall.objects.filter(status="done").count() == 3
    assert invariants.breaches() == []


# --- One breach of each
def breaks_item_shape(world):
    Item.objects.filter(pk=world.pending.pk).update(response="An answer without a resolver.")


def breaks_item_order(world):
    Item.objects.filter(pk=world.item.pk).update(consumed_at=clock(-3600))


def breaks_item_quiet(world):
    Item.objects.filter(pk=world.pending.pk).update(wakes=False)


def breaks_item_expiry(world):
    Item.objects.filter(pk=world.pending.pk).update(due_at=clock(-3600))


def breaks_mailbox_limit(world):
    Item.objects.bulk_create(Item(mailbox=world.mailbox, tag="a", request="b", created_at=clock()) for _ in range(20))


def breaks_address_once(world):
    Mailbox.objects.create(address="Storm/Ada", agent="storm")


def breaks_notification_shape(world):
    Notification.objects.create(item=world.pending, notifier="default", not_before=clock(), status="sent")


def breaks_notification_due(world):
    Notification.objects.create(item=world.pending, notifier="default", not_before=clock(-3600))


def breaks_early_answer_once(world):
    for _ in range(2):
        EarlyAnswer.objects.create(
            tag="a", response="b", resolved_by="c", resolved_via="webhook", taken_by=world.pending, taken_at=clock()
        )


def breaks_turn_shape(world):
    Turn.objects.filter(pk=world.turns.first().pk).update(token=1)


def breaks_turn_one_open(world):
    world.turn()
    world.turn()


def breaks_turn_of_closed(world):
    world.turn()
    Conversation.objects.filter(pk=world.conversation.pk).update(status="closed", closed_at=clock())
    Item.objects.update(origin=None)


def breaks_turn_heard(world):
    Turn.objects.filter(pk=world.turns.last().pk).update(heard=1000)


def breaks_turn_one_by_one(world):
    Turn.objects.filter(pk=world.turns.last().pk).update(started_at=clock(-3600))


def breaks_turn_left(world):
    world.turn(not_before=clock(-3600))


def breaks_conversation_shape(world):
    Conversation.objects.filter(pk=world.conversation.pk).update(closed_at=clock())


def breaks_conversation_head(world):
    Conversation.objects.filter(pk=world.conversation.pk).update(head=2)


def breaks_message_places(world):
    Message.objects.filter(pk=world.messages.last().pk).update(place=F("place") + 5)


def breaks_message_order(world):
    said = list(world.messages.filter(sender="user", kind="message"))
    for message, other in ((said[0], said[1]), (said[1], said[0])):
        Message.objects.filter(pk=message.pk).update(place=other.place)


def breaks_message_turn(world):
    other = conversations.open_conversation(world.mailbox.pk)
    Turn.objects.filter(pk=world.turns.first().pk).update(conversation=other.pk)


def breaks_item_read_once(world):
    message = world.messages.get(kind="inbox")
    message.pk, message.place = None, world.messages.last().place + 1
    message.save()


def breaks_item_read(world):
    Message.objects.filter(item=world.item).update(item=None)


def breaks_item_unread(world):
    Item.objects.filter(pk=world.item.pk).update(status="resolved", consumed_at=None, consumed_in=None)


def breaks_item_place(world):
    other = Mailbox.objects.create(address="storm/bob", agent="storm")
    Item.objects.filter(pk=world.item.pk).update(mailbox=other)


def breaks_item_origin(world):
    Conversation.objects.filter(pk=world.conversation.pk).update(status="closed", closed_at=clock())


def breaks_item_unrung(world):
    items.resolve(world.pending.pk, "Unheard.", by="sam", via="admin")
    Item.objects.filter(pk=world.pending.pk).update(resolved_at=clock(-3600))


def breaks_lost_message(world):
    Message.objects.create(conversation=world.conversation, sender="user", text="Anybody there?")


def breaks_lost_mail(world):
    items.resolve(world.pending.pk, "Unread.", by="sam", via="admin")
    Item.objects.filter(pk=world.pending.pk).update(rung=True)


def breaks_lost_wake(world):
    Turn.objects.filter(pk=world.turns.last().pk).update(status="failed")
    Conversation.objects.filter(pk=world.conversation.pk).update(rung=F("rung") + 1)
    Message.objects.create(conversation=world.conversation, sender="user", text="Anybody there?")


def breaks_call_shape(world):
    ToolCall.objects.filter(pk=ToolCall.objects.first().pk).update(finished_at=None)


def breaks_call_of_ended(world):
    ToolCall.objects.filter(pk=ToolCall.objects.first().pk).update(status="pending", finished_at=None)


def breaks_call_order(world):
    first = ToolCall.objects.first()
    ToolCall.objects.create(
        turn=first.turn,
        message=first.message,
        position=first.position + 1,
        call_id="late",
        name="work",
        input="{}",
        status="done",
        started_at=first.started_at,
        finished_at=clock(),
    )


def breaks_call_turn(world):
    ToolCall.objects.filter(pk=ToolCall.objects.first().pk).update(turn=world.turns.last().pk)


def breaks_call_journal(world):
    message = ToolCall.objects.first().message
    blocks = [*json.loads(message.blocks), {"type": "tool_use", "id": "forgotten", "name": "work", "input": {}}]
    Message.objects.filter(pk=message.pk).update(blocks=json.dumps(blocks))


BREACHES = {name.removeprefix("breaks_"): act for name, act in list(globals().items()) if name.startswith("breaks_")}


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_is_reported(world, name):
    BREACHES[name](world)
    found = {breach.check.name: breach.rows for breach in invariants.breaches()}
    assert name in found, found
    assert found[name][0]


def test_every_check_has_its_breach():
    ours = [*invariants.CHECKS, *agents_invariants.CHECKS]
    assert {check.name for check in ours} == set(BREACHES)
    assert {check.name for check in invariants.checks()} >= set(BREACHES)


def test_the_command_lists_breaches_and_exits_with_1(world):
    out = io.StringIO()
    call_command("check_invariants", stdout=out)
    assert re.fullmatch(r"All \d+ promises hold.\n", out.getvalue())
    breaks_turn_shape(world)
    with pytest.raises(CommandError, match="1 of"):
        call_command("check_invariants", stdout=out)
    assert "turn_shape: not so: A running turn has a token" in out.getvalue()
    assert f"turn {world.turns.first().pk}, status done" in out.getvalue()
