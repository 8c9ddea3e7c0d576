"""A hunt for deadlocks: everybody does everything to the same few conversations at once, for a few seconds.

The server's own count of deadlocks is the judge on Postgres. Afterwards nothing may be lost, doubled or stuck.
"""

import random
import time

import pytest
from django.db import connection

from agents import ToolContext, registry, tool
from agents.errors import AgentsError
from agents.models import Conversation, Message, Turn
from agents.services import turns, waking
from agents.services.conversations import cancel, close, open_conversation, retry, say
from inbox.errors import InboxError
from inbox.models import Item
from inbox.services import items, letters
from tests.agents.kit import OPEN, assert_sound
from tests.agents.scripts import post, use
from tests.factories import MailboxFactory

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

SECONDS = 4
RACERS = 8
LETTER = {"tag": "news", "request": "To you", "response": "It rains.", "by": "ada", "via": "api"}


def deadlocks():
    """How many the server has counted in this database."""
    if connection.vendor != "postgresql":
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return cursor.fetchone()[0]


@tool
def ask(ctx: ToolContext, n: int) -> str:
    """Ask outside of a transaction."""
    return ctx.post(f"ask:{n % 3}", f"{n}?", blocking=n % 2 == 0)


@tool(atomic=True)
def ask_atomically(ctx: ToolContext, n: int) -> str:
    """Ask in a transaction that answers another, too."""
    items.resolve_tag(f"ask:{n % 3}", "By a tool.", by="a tool", via="system")
    return ctx.post(f"ask:{n % 3}", f"{n}?")


def thinking(messages):
    """A model of moods."""
    n = random.randrange(10**6)
    return random.choice(
        [
            "Good.",
            "Good.",
            use("ask", n=n),
            [use("ask_atomically", n=n), post(f"ask:{n % 3}", f"{n}!?")],
            use("glove_update_inbox", id=str(Item.objects.values_list("pk", flat=True).last() or 1), action="withdraw"),
            use("glove_update_tasks", todos=[]),
        ]
    )


class World:
    """Two mailboxes with a few conversations each, and what can be done to them."""

    def __init__(self):
        self.mailboxes = [MailboxFactory().pk for _ in range(2)]
        for mailbox in self.mailboxes * 2:
            open_conversation(mailbox)
        self.done = {}
        self.acts = {
            "say": (4, lambda: say(self.conversation(), "Hello.")),
            "run": (8, self.run),
            "resolve": (5, lambda: items.resolve(self.item("pending"), "Yes.", by="bob", via="admin")),
            "answer by tag": (
                3,
                lambda: items.resolve_tag(f"ask:{random.randrange(3)}", "All.", by="x", via="webhook"),
            ),
            "cancel an item": (1, lambda: items.cancel(self.item("pending"), "No.", by="bob", via="admin")),
            "drop": (3, lambda: letters.drop(random.choice(self.mailboxes), **LETTER)),
            "expire": (1, self.expire),
            "wake": (2, lambda: waking.wake(random.choice(self.mailboxes))),
            "wake all": (1, waking.wake_unrung),
            "sweep": (1, turns.due_turns),
            "cancel": (2, lambda: cancel(self.conversation())),
            "retry": (1, lambda: retry(self.conversation())),
            "close": (2, lambda: close(self.conversation())),
            "open": (1, lambda: open_conversation(random.choice(self.mailboxes))),
        }

    def conversation(self):
        return self.one_of(Conversation.objects.filter(status="open")) or open_conversation(self.mailboxes[0]).pk

    def item(self, status):
        return self.one_of(Item.objects.filter(status=status)) or 0

    def one_of(self, rows):
        found = list(rows.order_by("-pk").values_list("pk", flat=True)[:6])
        return random.choice(found) if found else None

    def expire(self):
        Item.objects.filter(pk=self.item("pending")).update(due_at="2020-01-01T00:00Z")
        items.expire_due()

    def run(self):
        if turn := self.one_of(Turn.objects.filter(status="queued")):
            turns.start(turn)

    def live(self, seed):
        """Act until the time is over; an error with a name is an answer like any other."""
        random.seed(seed)
        names = list(self.acts)
        weights = [weight for weight, _ in self.acts.values()]
        ends = time.monotonic() + SECONDS
        count = 0
        while time.monotonic() < ends:
            (name,) = random.choices(names, weights)
            try:
                self.acts[name][1]()
            except (InboxError, AgentsError):
                continue
            count += 1
        return count

    def settle(self):
        """What the sweep and the workers do when the storm is over."""
        for _ in range(200):
            waking.wake_unrung()
            due = list(Turn.objects.filter(status__in=OPEN).values_list("pk", flat=True))
            if not due:
                return
            for turn in due:
                turns.start(turn)


def test_everybody_at_once(declare, script, race, monkeypatch, caplog):
    monkeypatch.setattr("agents.loop.SUMMARISE", "unused")
    declare(ask, ask_atomically, limits={"model_calls": 8})
    model = script(rest=thinking)
    world = World()
    before = deadlocks()
    seed = random.randrange(10**6)
    finish = race(RACERS, lambda n: world.live(seed + n))
    assert not finish.errors, f"seed {seed}"
    assert sum(finish.results) > 50, f"seed {seed}"
    script("Good.", rest="Good.")
    world.settle()
    assert len(model.prompts) > 10
    if connection.vendor == "postgresql":
        time.sleep(1.1)  # a session reports its count within a second
    assert deadlocks() == before, f"seed {seed}"
    assert "deadlock" not in caplog.text
    assert "database is locked" not in caplog.text

    assert not Turn.objects.filter(status__in=OPEN).exists()
    mailboxes_with_readers = Conversation.objects.filter(status="open").values("mailbox")
    unread = Item.objects.filter(status="resolved", rung=False, mailbox__in=mailboxes_with_readers)
    assert not unread.exists()
    assert_sound()
    # Whatever is still unread waits for a ring, since its turn failed or was cancelled: a word brings it in.
    for conversation in Conversation.objects.filter(status="open"):
        say(conversation.pk, "Anything left?")
    world.settle()
    assert not Item.objects.filter(status="resolved").exclude(origin__isnull=True).exists()
    assert not Message.objects.filter(place=None, conversation__status="open").exists()
    assert_sound()
    assert "tester" in registry.agents
