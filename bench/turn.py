"""What a turn costs: `python -m bench.turn`, on PostgreSQL.

1. A full turn (wake, one resolved item read, one model reply that comes at once, end) against bare psycopg doing the same
   writes in the same number of transactions. Promised: at least 0.5 of its speed.
2. A turn behind a summary with 10,000 messages before it against one with 100. Promised: within 1.1 of its time, with as
   many queries.

One turn of the one, one of the other, and so on, so that the machine's moods meet both alike; the figures are medians.
The doorbell is left out: a broker is no part of the comparison.
"""

import argparse
import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench import scratch

LEAST_SPEED = 0.5
MOST_GROWTH = 1.1
LONG, SHORT = 10_000, 100


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.turn", description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--turns", type=int, default=20, help="in a round")
    given = parser.parse_args()
    with scratch.database(f"glove_bench_turn_{os.getpid()}") as url:
        scratch.set_up(url, GLOVE_DEMO="0", LOG_LEVEL="ERROR")
        with _quiet_bell():
            good = compare_with_psycopg(url, given.rounds, given.turns)
            good &= compare_histories(given.rounds, given.turns)
    return 0 if good else 1


# --- 1. Against bare psycopg
def compare_with_psycopg(url: str, rounds: int, turns: int) -> bool:
    ours, bare = Ours(turns), Bare(url, turns)
    ours_s, bare_s = _medians([ours, bare], rounds, turns)
    ratio = bare_s / ours_s
    print(f"{scratch.machine()}; {rounds} rounds of {turns} turns")
    print(
        f"a full turn          {ours_s * 1000:6.2f} ms, {ours.queries()} statements in {ours.transactions} transactions"
    )
    print(f"bare psycopg         {bare_s * 1000:6.2f} ms, {len(Bare.STEPS)} transactions, the same writes")
    print(f"speed of a full turn {ratio:6.2f} of bare psycopg's (promised: at least {LEAST_SPEED})")
    return ratio >= LEAST_SPEED


def _medians(among: list[Any], rounds: int, turns: int) -> list[float]:
    """Seconds for one turn of each. The first round warms caches, plans and connections."""
    seconds: list[list[float]] = [[] for _ in among]
    for number in range(rounds + 1):
        for one in among:
            one.prepare()
        for index in range(turns):
            for one, found in zip(among, seconds, strict=True):
                began = time.perf_counter()
                one.run(index)
                if number:
                    found.append(time.perf_counter() - began)
    return [statistics.median(found) for found in seconds]


class Rows:
    """A mailbox, a conversation and an answered item for each turn of a round."""

    def __init__(self, turns: int) -> None:
        self.turns = turns

    def prepare(self) -> None:
        from django.utils import timezone

        from agents.models import Conversation
        from inbox.models import Item, Mailbox

        names = [f"bench/{os.urandom(8).hex()}" for _ in range(self.turns)]
        self.mailboxes = Mailbox.objects.bulk_create(Mailbox(address=name, agent="bench") for name in names)
        self.conversations = Conversation.objects.bulk_create(
            Conversation(agent="bench", mailbox=mailbox) for mailbox in self.mailboxes
        )
        at = timezone.now()
        self.items = Item.objects.bulk_create(
            Item(
                mailbox=talk.mailbox,
                origin=talk.pk,
                tag="approval:refund",
                request="May I refund 500 cents for order 17?",
                response="Yes, go ahead.",
                status="resolved",
                outcome="answered",
                resolved_at=at,
                resolved_by="ada",
                resolved_via="admin",
            )
            for talk in self.conversations
        )


class Ours(Rows):
    """The product's own services, one turn after another."""

    def prepare(self) -> None:
        declare()
        super().prepare()

    def run(self, index: int) -> None:
        from agents.models import Turn
        from agents.services import turns, waking

        waking.wake(self.mailboxes[index].pk)
        assert turns.start(rung.pop()) == "done", Turn.objects.latest("pk").error

    def queries(self) -> int:
        """Statements of one turn; `transactions` is how many commits that made."""
        self.prepare()
        with counted() as count:
            self.run(0)
        self.transactions = count.transactions
        return count.statements


class Bare(Rows):
    """The same writes by psycopg, on one connection, with the ids known where they can be."""

    def __init__(self, url: str, turns: int) -> None:
        import psycopg

        super().__init__(turns)
        self.connection = psycopg.connect(url, autocommit=True)

    def run(self, index: int) -> None:
        turn = 0
        for step in self.STEPS:
            with self.connection.transaction():
                turn = step(self, self.conversations[index].pk, self.items[index].pk, turn)

    def wake(self, talk: int, item: int, _: int) -> int:
        run = self.connection.execute
        run("UPDATE agents_conversation SET rung = rung + 1 WHERE id = %s", [talk])
        [turn] = run(
            "INSERT INTO agents_turn (conversation_id, status, reason, error, attempts, not_before, rung_at, heard,"
            " model_calls, compactions, backoffs, input_tokens, output_tokens, created_at) VALUES (%s, 'queued', '', '', 0,"
            " clock_timestamp(), clock_timestamp(), 0, 0, 0, 0, 0, 0, clock_timestamp()) RETURNING id",
            [talk],
        ).fetchall()[0]
        run("UPDATE inbox_item SET rung = true WHERE id = %s AND status = 'resolved'", [item])
        return turn

    def claim(self, talk: int, item: int, turn: int) -> int:
        self.connection.execute(
            "UPDATE agents_turn SET status = 'running', token = %s, heard = 1, reason = '', started_at = clock_timestamp(),"
            " lease_until = clock_timestamp() + interval '30 s' WHERE id = %s AND status = 'queued'",
            [turn, turn],
        )
        return turn

    def receive(self, talk: int, item: int, turn: int) -> int:
        run = self.connection.execute
        run(
            "UPDATE agents_turn SET lease_until = clock_timestamp() + interval '30 s', heard = 1"
            " WHERE id = %s AND token = %s AND status = 'running'",
            [turn, turn],
        )
        run(
            "UPDATE inbox_item SET status = 'consumed', rung = true, consumed_at = clock_timestamp(), consumed_in = %s"
            " WHERE id = %s AND status = 'resolved'",
            [turn, item],
        )
        run(
            "INSERT INTO agents_message (conversation_id, place, sender, kind, text, blocks, nonce, item_id, turn_id, created_at)"
            " VALUES (%s, 1, 'user', 'inbox', %s, '', '0123456789', %s, %s, clock_timestamp())",
            [talk, FRAME, item, turn],
        )
        return turn

    def finish(self, talk: int, item: int, turn: int) -> int:
        run = self.connection.execute
        run(
            "UPDATE agents_conversation SET input_tokens = input_tokens + 300, output_tokens = output_tokens + 5,"
            " context_tokens = 305 WHERE id = %s",
            [talk],
        )
        run(
            "UPDATE agents_turn SET status = 'done', token = NULL, lease_until = NULL, finished_at = clock_timestamp(),"
            " attempts = 0, model_calls = 1, input_tokens = 300, output_tokens = 5 WHERE id = %s AND token = %s"
            " AND status = 'running'",
            [turn, turn],
        )
        run(
            "INSERT INTO agents_modelcall (turn_id, conversation_id, agent, day, model, purpose, attempt, input_tokens,"
            " output_tokens, cache_read_tokens, cache_write_tokens, cost_micros, duration_ms, stop_reason, error, created_at)"
            " VALUES (%s, %s, 'bench', glove_day(), 'scripted:default', 'reply', 1, 300, 5, 0, 0, 0, 1, 'end_turn', '',"
            " clock_timestamp())",
            [turn, talk],
        )
        run(
            "INSERT INTO agents_message (conversation_id, place, sender, kind, text, blocks, nonce, turn_id, created_at)"
            " VALUES (%s, 2, 'agent', 'message', %s, %s, '', %s, clock_timestamp())",
            [talk, REPLY, BLOCKS, turn],
        )
        return turn

    STEPS = (wake, claim, receive, finish)


REPLY = "It is done: 500 cents go back to you."
BLOCKS = '[{"type":"text","text":"It is done: 500 cents go back to you."}]'
FRAME = """\
[[mail 0123456789 item 1 tag approval:refund: answered by ada (admin) at 2026-12-01 10:00 UTC]]
[[0123456789 request]]
May I refund 500 cents for order 17?
[[0123456789 response]]
Yes, go ahead.
[[end of mail 0123456789]]"""


# --- 2. The history before the last summary
def compare_histories(rounds: int, turns: int) -> bool:
    histories = [History(length, turns) for length in (LONG, SHORT)]
    queries = [one.queries() for one in histories]
    long_s, short_s = _medians(histories, rounds, turns)
    ratio = long_s / short_s
    print(f"{LONG:6,} messages before the summary {long_s * 1000:6.2f} ms, {queries[0]} statements")
    print(f"{SHORT:6,} messages before the summary {short_s * 1000:6.2f} ms, {queries[1]} statements")
    print(f"a long history costs {ratio:.3f} of a short one (promised: at most {MOST_GROWTH}, as many statements)")
    return ratio <= MOST_GROWTH and queries[0] == queries[1]


class History:
    """Conversations with so many messages before their summary, each of which gets one message per round."""

    def __init__(self, length: int, turns: int) -> None:
        from agents.models import Conversation, Message
        from inbox.models import Mailbox

        declare()
        self.talks: list[Any] = []
        for _ in range(turns):
            mailbox = Mailbox.objects.create(address=f"bench/{os.urandom(8).hex()}", agent="bench")
            talk = Conversation.objects.create(agent="bench", mailbox=mailbox, head=length + 1)
            Message.objects.bulk_create(
                (
                    Message(
                        conversation=talk,
                        place=place,
                        sender="user" if place % 2 else "agent",
                        kind="summary" if place > length else "message",
                        text=f"Message {place} of a long talk about beans.",
                    )
                    for place in range(1, length + 2)
                ),
                batch_size=2000,
            )
            self.talks.append(talk)
        self.length = length
        vacuum()

    def prepare(self) -> None:
        """Each is again just behind its summary, with one message to answer."""
        from agents.models import Message
        from agents.services import conversations

        rung.clear()
        Message.objects.filter(conversation__in=self.talks, place__gt=self.length + 1).delete()
        for talk in self.talks:
            conversations.say(talk.pk, "And now?")
        self.rung = list(rung)

    def run(self, index: int) -> None:
        from agents.services import turns

        assert turns.start(self.rung[index]) == "done"

    def queries(self) -> int:
        self.prepare()
        with counted() as count:
            self.run(0)
        for index in range(1, len(self.rung)):
            self.run(index)
        return count.statements


# --- What both need
rung: list[int] = []


@contextlib.contextmanager
def _quiet_bell() -> Iterator[None]:
    from agents import bell

    real = bell.ring

    def ring(turn_id: int, countdown: float = 0.0) -> bool:
        rung.append(turn_id)
        return True

    bell.ring = ring
    try:
        yield
    finally:
        bell.ring = real


def declare() -> None:
    from django.conf import settings

    from agents import Agent, registry

    if "bench" not in registry.agents:
        options = {
            "BACKEND": "agents.adapters.scripted.ScriptedModel",
            "OPTIONS": {"script": lambda messages, tools: REPLY},
        }
        settings.AGENT_MODELS = {**settings.AGENT_MODELS, "bench": options}
        Agent("bench", instructions="Be brief.", model="bench")


class Count:
    statements = transactions = 0


@contextlib.contextmanager
def counted() -> Iterator[Count]:
    """Statements inside, and transactions: blocks that were committed, and writes outside of any."""
    from django.db import connection

    count = Count()

    def one(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        count.statements += 1
        count.transactions += not (connection.in_atomic_block or sql.startswith("SELECT"))
        return execute(sql, *rest)

    from django.db import transaction

    real = transaction.Atomic.__exit__

    def left(self: Any, *exception: Any) -> None:
        real(self, *exception)
        count.transactions += not connection.in_atomic_block

    transaction.Atomic.__exit__ = left  # type: ignore[method-assign]
    try:
        with connection.execute_wrapper(one):
            yield count
    finally:
        transaction.Atomic.__exit__ = real  # type: ignore[method-assign]


def vacuum() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


if __name__ == "__main__":
    raise SystemExit(main())
