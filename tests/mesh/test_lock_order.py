"""A hunt for deadlocks on the mesh: everybody writes, answers, acknowledges, retires and buries at once, for a few seconds.

The server's own count of deadlocks is the judge on Postgres. Afterwards no wait is open that can no longer end, no letter is lost,
doubled or out of order."""

import random
import time

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection

from agents.errors import AgentsError
from agents.models import Conversation, Turn
from agents.services import turns, waking
from agents.services.conversations import cancel, close, open_conversation, say
from inbox.errors import InboxError
from inbox.models import Item
from inbox.services import items
from mesh.models import Delivery, Message, Peer
from mesh.services import answering, delivering, desk, leaving, peers, sending
from tests.agents.kit import OPEN, assert_sound
from tests.agents.scripts import use
from tests.agents.test_lock_order import deadlocks
from tests.factories import UserFactory

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

SECONDS = 4
ENOUGH, MORE_S = 20, 60  # letters; seconds
RACERS = 8
TRANSPORTS = ("database.DatabaseTransport", "memory.MemoryTransport")


class World:
    """Four peers, and what can be done by them and to them."""

    def __init__(self, company):
        self.mailboxes = [peer.mailbox_id for peer in company]
        self.staff = UserFactory(may=["mesh.manage_mesh"])
        self.acts = {
            "send": (6, lambda: sending.send(self.sender(), self.address(), self.words(), blocking=self.flip())),
            "send to some": (1, lambda: sending.send(self.sender(), [self.address(), self.address()], self.words())),
            "reply": (6, self.reply),
            "acknowledge": (6, lambda: answering.acknowledge(self.peer(), self.message(), "Taken.")),
            "broadcast": (2, self.broadcast),
            "retire": (1, lambda: leaving.retire(self.staff, self.any_peer())),
            "bring back": (2, lambda: leaving.bring_back(self.staff, self.any_peer())),
            "resolve by staff": (1, lambda: items.resolve(self.wait(), "By staff.", by="bob", via="admin")),
            "withdraw": (1, self.withdraw),
            "expire": (1, self.expire),
            "deliver": (3, lambda: delivering.deliver(self.delivery("queued"))),
            "bury": (2, lambda: delivering.bury(self.delivery("queued"), "lost")),
            "send again": (2, lambda: desk.send_again(self.staff, self.delivery("dead"))),
            "sweep": (1, delivering.deliver_queued),
            "run": (6, self.run),
            "wake": (1, waking.wake_unrung),
            "cancel": (1, lambda: cancel(self.conversation())),
            "close": (1, lambda: close(self.conversation())),
        }

    def flip(self):
        return random.random() < 0.4

    def words(self):
        return f"{random.random()}"

    def any_peer(self):
        return random.choice(list(Peer.objects.values_list("pk", flat=True)))

    def peer(self):
        return peers.peer_of(random.choice(self.mailboxes))

    def address(self):
        return f"p{random.randrange(len(self.mailboxes))}"

    def sender(self):
        peer = self.peer()
        talks = Conversation.objects.filter(mailbox=peer.mailbox_id, status="open")
        return sending.From(peer, self.one_of(talks) if self.flip() else None)

    def message(self):
        return self.one_of(Message.objects.all()) or "none"

    def reply(self):
        rows = Delivery.objects.select_related("recipient__mailbox").order_by("-pk")[:10]
        row = random.choice(list(rows) or [None])
        if row is not None:
            who = sending.From(row.recipient)
            sending.send(who, [], self.words(), in_reply_to=row.message_id, blocking=self.flip())

    def broadcast(self):
        blocking = self.flip()
        quorum = random.choice(["first", "all", 2]) if blocking else None
        sending.broadcast(self.sender(), self.words(), blocking=blocking, quorum=quorum)

    def wait(self):
        return self.one_of(Item.objects.filter(status="pending")) or 0

    def withdraw(self):
        if item := Item.objects.filter(pk=self.wait()).first():
            items.withdraw(item.pk, mailbox_id=item.mailbox_id)

    def expire(self):
        Item.objects.filter(pk=self.wait()).update(due_at="2020-01-01T00:00Z")
        items.expire_due()

    def delivery(self, status):
        return self.one_of(Delivery.objects.filter(status=status)) or 0

    def conversation(self):
        found = self.one_of(Conversation.objects.filter(status="open"))
        return found or open_conversation(random.choice(self.mailboxes)).pk

    def run(self):
        if turn := self.one_of(Turn.objects.filter(status="queued")):
            turns.start(turn)
        else:
            say(self.conversation(), "Write to somebody.")

    def one_of(self, rows):
        found = list(rows.order_by("-pk").values_list("pk", flat=True)[:6])
        return random.choice(found) if found else None

    def live(self, seed):
        """Act until the time is over, and on a busy machine until enough was written; an error with a name is an answer like any
        other."""
        random.seed(seed)
        names, weights = list(self.acts), [weight for weight, _ in self.acts.values()]
        ends, count = time.monotonic() + SECONDS, 0
        while time.monotonic() < ends or (mail().count() <= ENOUGH and time.monotonic() < ends + MORE_S):
            (name,) = random.choices(names, weights)
            try:
                self.acts[name][1]()
            except InboxError as error:
                error.remember()  # as the API's edge does
                continue
            except AgentsError:
                continue
            count += 1
        return count

    def settle(self):
        """What the sweep, the workers and the staff do when the storm is over."""
        for pk in Peer.objects.values_list("pk", flat=True):
            leaving.bring_back(self.staff, pk)
        for _ in range(100):
            delivering.deliver_queued()
            waking.wake_unrung()
            due = list(Turn.objects.filter(status__in=OPEN).values_list("pk", flat=True))
            if not due:
                return
            for turn in due:
                turns.start(turn)


def thinking(messages):
    """A model of moods."""
    to, words = f"p{random.randrange(4)}", f"{random.random()}"
    message = Message.objects.order_by("-pk").values_list("pk", flat=True).first() or "none"
    return random.choice(
        [
            "Good.",
            "Good.",
            use("glove_mesh_send_message", to=to, content=words, blocking=random.random() < 0.5),
            use("glove_mesh_send_message", to=to, content=words, in_reply_to=message),
            [use("glove_mesh_acknowledge", message_id=message), use("glove_mesh_broadcast", content=words)],
        ]
    )


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_everybody_at_once(transport, peers, script, race, settings, caplog):
    settings.MESH_TRANSPORTS = {"default": {"BACKEND": f"mesh.transports.{transport}", "OPTIONS": {}}}
    settings.MESH_LIMITS = {"messages_per_minute": 10**6}
    settings.INBOX_MAX_OPEN_ITEMS = 50
    script(*[thinking] * 10_000)
    world = World(peers("p0", "p1", "p2", "p3"))
    before, seed = deadlocks(), random.randrange(10**6)
    finish = race(RACERS, lambda n: world.live(seed + n))
    assert not finish.errors, f"seed {seed}: {finish.errors}"
    assert sum(finish.results) > 50, f"seed {seed}"
    script(*["Good."] * 10_000)
    world.settle()
    if connection.vendor == "postgresql":
        time.sleep(1.1)  # a session reports its count within a second
    assert deadlocks() == before, f"seed {seed}"
    assert "deadlock" not in caplog.text
    assert "database is locked" not in caplog.text
    assert_sound()  # among its checks: no wait is open that was met, or can no longer be
    assert not Delivery.objects.filter(status="queued").exists()
    check_order_and_letters()


def check_order_and_letters():
    """A letter for each message and recipient, and each pair's in the order of sending, but for what staff sent again."""
    delivered = Delivery.objects.filter(status="delivered").select_related("message", "item").order_by("pk")
    again = {
        int(pk) for pk in LogEntry.objects.filter(change_message="Sent again.").values_list("object_id", flat=True)
    }
    made, last = 0, {}
    for row in delivered:
        assert row.item is not None
        assert row.item.response == row.message.content
        if row.item.asked:  # it ended a wait, and was read there
            continue
        made += 1
        if row.pk not in again:
            pair = (row.sender_id, row.recipient_id)
            assert row.item.pk > last.get(pair, 0), pair
            last[pair] = row.item.pk
    assert mail().count() == made > ENOUGH


def mail():
    return Item.objects.filter(tag__regex="^mesh:(from|broadcast)")
