"""What every send runs, in plain SQL that both databases take but for one locking suffix: as objects it cost twice as much."""

from typing import Any, NamedTuple

from django.db import connection

from inbox.models import Mailbox
from mesh.models import Message, Peer

COLUMNS = "p.id, p.mailbox_id, p.public, p.retired_at, m.address, m.owner_id, m.agent"
JOINED = "FROM mesh_peer p JOIN inbox_mailbox m ON m.id = p.mailbox_id"


class Found(NamedTuple):
    """A peer, and whether it wrote to whoever looks."""

    peer: Peer
    wrote: bool


def lock_sender(peer: int) -> Peer | None:
    """The peer, its mailbox locked: its messages go one after another, and keep their order."""
    lock = "" if connection.vendor == "sqlite" else " FOR NO KEY UPDATE OF m"
    row = _one(f"SELECT {COLUMNS} {JOINED} WHERE p.id = %s{lock}", [peer])
    return row and _peer(row)


def find_by_address(address: str, for_whom: int) -> Found | None:
    """The peer of this address, whatever the case of its letters."""
    wrote = "EXISTS (SELECT 1 FROM mesh_delivery d WHERE d.recipient_id = %s AND d.sender_id = p.id)"
    row = _one(f"SELECT {COLUMNS}, {wrote} {JOINED} WHERE LOWER(m.address) = %s", [for_whom, address.lower()])
    return row and Found(_peer(row[:-1]), bool(row[-1]))


def insert_message(message: Message) -> None:
    """The row of this message; its time is the database's."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO mesh_message (id, kind, sender_id, content, in_reply_to_id, blocking, wait_id, quorum, topic, capability,"
            " root, hops, sent_in, created_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, glove_clock(0))",
            [
                message.pk,
                message.kind,
                message.sender_id,
                message.content,
                message.in_reply_to_id,
                message.blocking,
                message.wait_id,
                message.quorum,
                message.topic,
                message.capability,
                message.root,
                message.hops,
                message.sent_in,
            ],
        )


def _peer(row: Any) -> Peer:
    pk, mailbox, public, retired_at, address, owner, agent = row
    return Peer(
        id=pk,
        mailbox=Mailbox(id=mailbox, address=address, owner_id=owner, agent=agent),
        public=bool(public),
        retired_at=retired_at,
    )


def _one(sql: str, values: list[Any]) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchone()
