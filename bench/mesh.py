"""What a letter costs: `python -m bench.mesh`, on PostgreSQL.

1. A send of one peer to another against one bare psycopg transaction that inserts the same rows. Promised: at least 0.5 of
   its speed.
2. A broadcast to 1,000 peers against bare INSERT ... SELECT of the same rows. Promised: at least 0.5 of its speed.

Ours and the other take turns in short rounds of one run; the figures are medians of rounds. Wakes are left out: they come
after the commit, and a broadcast leaves them to a worker.
"""

import argparse
import itertools
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

from bench import scratch

LEAST_SPEED = 0.5
PEERS = 1_000

ITEM = (
    "INSERT INTO inbox_item (mailbox_id, tag, request, response, status, outcome, blocking, asked, wakes, rung, created_at,"
    " resolved_at, resolved_by, resolved_via)"
)
BORN = "'resolved', 'answered', false, false, true, false, clock_timestamp(), clock_timestamp(), %s, 'mesh'"
MESSAGE = (
    "INSERT INTO mesh_message (id, kind, sender_id, content, blocking, quorum, topic, capability, root, hops, created_at)"
    " VALUES (%s, %s, %s, %s, false, 1, '', '', %s, 0, clock_timestamp())"
)
DELIVERY = (
    "INSERT INTO mesh_delivery (message_id, sender_id, recipient_id, item_id, status, reason, ack_note,"
    " created_at, delivered_at)"
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.mesh", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    with scratch.database(f"glove_bench_mesh_{os.getpid()}") as url:
        scratch.set_up(url, GLOVE_DEMO="0", LOG_LEVEL="ERROR")
        bench = Bench(url)
        print(f"{scratch.machine()}; {given.rounds} rounds")
        good = compare("a send", given.rounds, 50, bench.send, bench.bare_send)
        good &= compare(f"a broadcast to {PEERS:,}", given.rounds, 1, bench.broadcast, bench.bare_broadcast)
    return 0 if good else 1


def compare(what: str, rounds: int, times: int, ours: Callable[[], None], bare: Callable[[], None]) -> bool:
    """Whether ours is fast enough beside the other."""
    for act in (ours, bare):
        act()
    figures = [[_timed(act, times) for act in (ours, bare)] for _ in range(rounds)]
    ours_s, bare_s = (statistics.median(column) for column in zip(*figures, strict=True))
    ratio = statistics.median(theirs / mine for mine, theirs in figures)
    print(
        f"{what:22} {ours_s * 1000:8.2f} ms, bare {bare_s * 1000:8.2f} ms, speed {ratio:5.2f} (promised: {LEAST_SPEED})"
    )
    return ratio >= LEAST_SPEED


def _timed(act: Callable[[], None], times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        act()
    return (time.perf_counter() - began) / times


class Bench:
    """A thousand public peers; one writes."""

    def __init__(self, url: str) -> None:
        import psycopg

        from agents import Agent
        from inbox.models import Mailbox
        from inbox.signals import mailbox_ready, many_ready
        from mesh.models import Peer
        from mesh.services.sending import From

        for signal in (mailbox_ready, many_ready):
            signal.receivers.clear()
            signal.sender_receivers_cache.clear()
        Agent("bench", instructions="Bench.")
        boxes = Mailbox.objects.bulk_create(Mailbox(address=f"bench/{n}", agent="bench") for n in range(PEERS + 1))
        peers = Peer.objects.bulk_create(Peer(mailbox=box, public=True) for box in boxes)
        # Each writes a little, as peers do: within the messages that one may send in a minute.
        self.writers = itertools.cycle(From(peer) for peer in peers[1:])
        self.recipient = peers[0]
        self.connection = psycopg.connect(url, autocommit=True)
        # As autovacuum has it on a server that has run for a minute. The tables that fill up are left out: known as empty, they
        # would be read as a whole for every foreign key of this session.
        self.connection.execute("ANALYZE mesh_peer, inbox_mailbox")

    def send(self) -> None:
        from mesh.services import sending

        sending.send(next(self.writers), "bench/0", "The plan is ready.")

    def bare_send(self) -> None:
        with self.connection.transaction():
            sender = next(self.writers).peer
            pk = self._message("direct", sender)
            item = self.connection.execute(
                f"{ITEM} VALUES (%s, 'mesh:from:bench/1', %s, %s, {BORN}) RETURNING id",
                [self.recipient.mailbox_id, f"Message {pk} from bench/1.", "The plan is ready.", "bench/1"],
            ).fetchone()
            self.connection.execute(
                f"{DELIVERY} VALUES (%s, %s, %s, %s, 'delivered', '', '', clock_timestamp(), clock_timestamp())",
                [pk, sender.pk, self.recipient.pk, item and item[0]],
            )

    def broadcast(self) -> None:
        from mesh.services import sending

        assert sending.broadcast(next(self.writers), "The plan is ready.").recipients == PEERS

    def bare_broadcast(self) -> None:
        with self.connection.transaction():
            sender = next(self.writers).peer
            pk = self._message("broadcast", sender)
            self.connection.execute(
                f"WITH made AS ({ITEM} SELECT mailbox_id, 'mesh:broadcast:from:bench/1', %s, %s, {BORN} FROM mesh_peer"
                f" WHERE id <> %s RETURNING id, mailbox_id) {DELIVERY} SELECT %s, %s, p.id, made.id, 'delivered', '', '',"
                " clock_timestamp(), clock_timestamp() FROM made JOIN mesh_peer p ON p.mailbox_id = made.mailbox_id",
                [f"Broadcast {pk} from bench/1.", "The plan is ready.", "bench/1", sender.pk, pk, sender.pk],
            )

    def _message(self, kind: str, sender: Any) -> str:
        from mesh.ids import message_id

        pk = message_id()
        values: list[Any] = [pk, kind, sender.pk, "The plan is ready.", pk]
        self.connection.execute(MESSAGE, values)
        return pk


if __name__ == "__main__":
    raise SystemExit(main())
