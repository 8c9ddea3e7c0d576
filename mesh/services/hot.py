"""What every send runs, in plain SQL that both databases take but for locks and for how much goes into one statement. As objects
it cost twice as much. On Postgres a send is three statements, to lock, to look and to write: as many as bare inserts are."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from django.db import connection

from inbox.models import Item
from inbox.services import items, letters, statements
from mesh.models import Message, Peer
from mesh.services import locks

COLUMNS = "p.id, p.mailbox_id, p.public, p.retired_at, m.address, m.owner_id, m.agent"
JOINED = "mesh_peer p JOIN inbox_mailbox m ON m.id = p.mailbox_id"
LIVES = "EXISTS (SELECT 1 FROM mesh_peer me WHERE me.id = %s AND me.retired_at IS NULL)"
SENT = "(SELECT COUNT(*) FROM mesh_message s WHERE s.sender_id = %s AND s.created_at > glove_now(-60))"


class Other(NamedTuple):
    """A peer as far as a send needs it: a row, not an object of the models, which takes longer to make than to fetch."""

    pk: int
    mailbox_id: int
    public: bool
    retired_at: Any
    address: str
    owner_id: int | None
    agent: str

    @classmethod
    def of(cls, peer: Peer) -> "Other":
        """The same of an object of the models."""
        box = peer.mailbox
        return cls(peer.pk, box.pk, peer.public, peer.retired_at, box.address, box.owner_id, box.agent)


class Look(NamedTuple):
    """Whether the sender is still a peer, how many messages it sent within the last minute, and others by their address in small
    letters."""

    lives: bool
    sent: int
    others: dict[str, Other]


def begin(sender: Peer, addresses: Sequence[str]) -> Look:
    """Lock the sender's mailbox, so that its messages go one after another and keep their order; stand with other senders; then
    look how the sender stands, and for the peers of these addresses, which are in small letters. What is read here holds until the
    transaction ends."""
    if connection.vendor == "postgresql":  # SQLite's writers are one after the other anyway
        mine = "SELECT 1 FROM inbox_mailbox WHERE id = %s FOR NO KEY UPDATE"
        statements.rows(f"SELECT {locks.TOGETHER} FROM ({mine}) mine", [sender.mailbox_id])
    if not addresses:
        ((lives, sent),) = statements.rows(f"SELECT {LIVES}, {SENT}", [sender.pk, sender.pk])
        return Look(bool(lives), sent, {})
    marks = ", ".join(["%s"] * len(addresses))
    rows = statements.rows(
        f"SELECT {LIVES}, {SENT}, {COLUMNS} FROM (SELECT 1) one LEFT JOIN ({JOINED}) ON LOWER(m.address) IN ({marks})",
        [sender.pk, sender.pk, *addresses],
    )
    found = [Other(*row[2:]) for row in rows if row[2] is not None]
    others = {other.address.lower(): other for other in found if other.pk != sender.pk}
    return Look(bool(rows[0][0]), rows[0][1], others)


def write(message: Message, recipients: tuple[str, Sequence[Any]], tag: str) -> int:
    """The message, a letter in each mailbox and a delivery for each, as one. `recipients` is SQL, with its values, that gives a row
    for each: mailbox_id, agent, and as request the words above the letter. Returns how many they are."""
    letter, letter_values = letters.to_all(
        recipients, tag=tag, response=message.content, by=str(message.sender), via=Item.Via.MESH
    )
    if connection.vendor == "postgresql":
        sql, values = _message(message)
        delivery, delivery_values = _delivery(message, "made")
        made = statements.rows(
            f"WITH message AS ({sql}), made AS ({letter}), delivery AS ({delivery}) SELECT mailbox_id, wakes FROM made",
            [*values, *letter_values, *delivery_values],
        )
    else:
        insert_message(message)
        rows = statements.rows(letter, letter_values)
        pairs = "SELECT json_extract(v.value, '$[0]') AS id, json_extract(v.value, '$[1]') AS mailbox_id FROM json_each(%s) v"
        delivery, delivery_values = _delivery(message, f"({pairs})")
        statements.run(delivery, [*delivery_values, json.dumps(rows)])
        made = [(mailbox, wakes) for _, mailbox, wakes in rows]
    items.announce(mailbox for mailbox, wakes in made if wakes)
    return len(made)


def named(recipients: Sequence[tuple[Other, str]]) -> tuple[str, list[Any]]:
    """For `write`: these peers, each with the words above its letter."""
    rows = " UNION ALL ".join(["SELECT %s AS mailbox_id, %s AS agent, %s AS request"] * len(recipients))
    return rows, [value for other, words in recipients for value in (other.mailbox_id, other.agent, words)]


def insert_message(message: Message) -> None:
    """The row of this message alone; its time is the database's."""
    statements.run(*_message(message))


def _message(message: Message) -> tuple[str, list[Any]]:
    sql = (
        "INSERT INTO mesh_message (id, kind, sender_id, content, in_reply_to_id, blocking, wait_id, quorum, everyone, topic,"
        " capability, root, hops, sent_in, created_at)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, glove_clock(0))"
    )
    return sql, [
        message.pk,
        message.kind,
        message.sender_id,
        message.content,
        message.in_reply_to_id,
        message.blocking,
        message.wait_id,
        message.quorum,
        message.everyone,
        message.topic,
        message.capability,
        message.root,
        message.hops,
        message.sent_in,
    ]


def _delivery(message: Message, made: str) -> tuple[str, list[Any]]:
    """Born delivered, for each letter that was made."""
    recipient = "(SELECT p.id FROM mesh_peer p WHERE p.mailbox_id = made.mailbox_id)"
    sql = (
        "INSERT INTO mesh_delivery (message_id, sender_id, recipient_id, item_id, status, reason, ack_note, created_at,"
        f" delivered_at) SELECT %s, %s, {recipient}, made.id, 'delivered', '', '', glove_clock(0), glove_clock(0) FROM {made} made"
    )
    return sql, [message.pk, message.sender_id]
