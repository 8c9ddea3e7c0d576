"""What people and outside services do in the storm: talk, answer, drop mail, cancel, close, retry. All that was accepted is kept,
to be looked for afterwards."""

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from django.db import InterfaceError, InternalError, OperationalError, connections, transaction

from agents.errors import AgentsError
from agents.models import Conversation, Turn
from agents.services import conversations
from inbox.errors import InboxError
from inbox.models import Item
from inbox.services import items, letters

WISHES = ("none", "none", "post", "post", "short", "work", "work", "again", "tasks", "trouble")


@dataclass
class Accepted:
    """What was answered with success: message ids by word, answers by item id."""

    said: dict[str, int] = field(default_factory=dict)
    answers: dict[int, str] = field(default_factory=dict)
    done: Counter = field(default_factory=Counter)
    refused: Counter = field(default_factory=Counter)
    unexpected: list[str] = field(default_factory=list)


class Actor(threading.Thread):
    """One of those who act at random on shared mailboxes, until told to stop."""

    def __init__(self, number: int, seed: int, mailboxes: list[int], accepted: Accepted, halt: threading.Event) -> None:
        super().__init__(name=f"actor-{number}", daemon=True)
        self.number, self.mailboxes, self.accepted, self.halt = number, mailboxes, accepted, halt
        self.random = random.Random(seed * 100 + number)
        self.count = 0

    def run(self) -> None:
        acts = [
            (self.say, 45), (self.answer, 25), (self.drop, 10), (self.refuse, 3), (self.stop_turn, 5), (self.reopen, 4),
            (self.retry, 4), (self.say_in_a_bunch, 4),
        ]  # fmt: skip
        choices, weights = zip(*acts, strict=True)
        while not self.halt.is_set():
            act = self.random.choices(choices, weights)[0]
            try:
                act()
                self.accepted.done[act.__name__] += 1
            except (AgentsError, InboxError) as error:
                self.accepted.refused[type(error).__name__] += 1
            except (OperationalError, InternalError, InterfaceError) as error:
                # A stopped worker held a lock for longer than one waits. The caller saw an error; nothing was accepted.
                self.accepted.refused[f"{type(error).__name__}: {str(error)[:40]}"] += 1
            except Exception as error:
                self.accepted.unexpected.append(f"{act.__name__}: {error!r}")
            finally:
                connections.close_all()
            time.sleep(self.random.expovariate(25))

    # --- The acts
    def say(self) -> None:
        conversation = self._some(Conversation.objects.filter(mailbox__in=self.mailboxes, status="open"))
        word = self._word()
        message = conversations.say(conversation, f"Listen. word:{word} wish:{self.random.choice(WISHES)}")
        self.accepted.said[word] = message.pk

    def say_in_a_bunch(self) -> None:
        for _ in range(5):
            self.say()

    def answer(self) -> None:
        item = self._some(Item.objects.filter(status="pending"))
        self._answered(items.resolve(item, f"Answer {self._word()}.", by=self.name, via="api"))

    def refuse(self) -> None:
        item = self._some(Item.objects.filter(status="pending"))
        self._answered(items.cancel(item, f"Not now {self._word()}.", by=self.name, via="admin"))

    def drop(self) -> None:
        self._answered(
            letters.drop(
                self.random.choice(self.mailboxes),
                tag="storm:news",
                request="For your information.",
                response=f"News {self._word()}.",
                by=self.name,
                via="api",
            )
        )

    def stop_turn(self) -> None:
        conversations.cancel(self._some(Conversation.objects.filter(mailbox__in=self.mailboxes, status="open")))

    def retry(self) -> None:
        ended = Turn.objects.filter(status__in=["failed", "cancelled"], conversation__status="open")
        conversations.retry(self._some(ended.values_list("conversation", flat=True), "conversation"))

    def reopen(self) -> None:
        """Close one conversation, and open another on its mailbox before or after."""
        conversation = self._some(Conversation.objects.filter(mailbox__in=self.mailboxes, status="open"))
        mailbox = Conversation.objects.values_list("mailbox", flat=True).get(pk=conversation)
        if self.random.random() < 0.5:
            conversations.open_conversation(mailbox)
            conversations.close(conversation)
        else:
            conversations.close(conversation)
            conversations.open_conversation(mailbox)

    # --- Inside
    def _answered(self, item: Item) -> None:
        self.accepted.answers[item.pk] = item.response

    def _word(self) -> str:
        self.count += 1
        return f"w{self.number}x{self.count}"

    def _some(self, rows, name: str = "pk") -> int:
        found = list(rows.order_by().values_list(name, flat=True)[:200])
        if not found:
            raise InboxError("nothing of the kind")
        return self.random.choice(found)


def settle_once() -> int:
    """Try again what failed or was cancelled with something unread; returns how many conversations have something to do."""
    busy = 0
    for conversation in Conversation.objects.filter(status="open"):
        newest = conversation.turns.order_by("-pk").first()
        if newest is None:
            continue
        unread = (
            conversation.messages.filter(place=None).exists()
            or Item.objects.filter(mailbox=conversation.mailbox_id, status="resolved").exists()
        )
        if newest.status in ("queued", "running", "waiting"):
            busy += 1
        elif newest.status != "done" and unread:
            busy += 1
            with transaction.atomic():
                conversations.retry(conversation.pk)
    return busy
