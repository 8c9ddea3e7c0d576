"""What every turn runs, in plain SQL that both databases take: claim, receive, read, reply, finish.

The text is the same for both but for one locking suffix; `glove_clock` and `glove_now` are the database's clock (inbox/clock.py).
As objects this would be about three times the work per turn. Every write of a running turn begins with the fence: an UPDATE of
its row where the token is still its own, which renews the lease too. No row, and the caller's transaction is rolled back.
"""

import secrets
from typing import Any, NamedTuple

from django.db import connection, transaction

from agents.entries import Call, Entry, History
from agents.errors import Fenced
from agents.frames import draw_nonce, frame
from inbox.services import reading, statements

OF_TALK = "(SELECT c.%s FROM agents_conversation c WHERE c.id = agents_turn.conversation_id)"
ADDRESS = (
    "(SELECT b.address FROM agents_conversation c JOIN inbox_mailbox b ON b.id = c.mailbox_id"
    " WHERE c.id = agents_turn.conversation_id)"
)
HEARD = OF_TALK % "rung"
LAST_PLACE = (
    "(SELECT COALESCE(MAX(m.place), 0) FROM agents_message m WHERE m.conversation_id = agents_turn.conversation_id)"
)
QUEUED = "FROM agents_message WHERE conversation_id = %s AND place IS NULL"
FOUND = (
    f"{LAST_PLACE}, EXISTS (SELECT 1 {QUEUED.replace('%s', 'agents_turn.conversation_id')}),"
    f" EXISTS (SELECT 1 {reading.RESOLVED}), EXISTS (SELECT 1 {reading.PENDING} AND blocking)"
)


class Claim(NamedTuple):
    """A turn that is ours to run."""

    turn: int
    token: int
    conversation: int
    agent: str
    mailbox: int
    address: str
    context_tokens: int
    attempts: int
    model_calls: int
    compactions: int
    backoffs: int
    input_tokens: int
    output_tokens: int


class Received(NamedTuple):
    """What a receive brought: the history to answer, and the last place given."""

    history: History
    place: int


def claim(turn: int, lease_s: float) -> Claim | None:
    """Take a queued turn that is due, or a running one whose lease lapsed, which counts an attempt. One winner."""
    token = secrets.randbits(62) + 1
    returning = (
        f"RETURNING conversation_id, {OF_TALK % 'agent'}, {OF_TALK % 'mailbox_id'}, {ADDRESS}, {OF_TALK % 'context_tokens'},"
        " attempts, model_calls, compactions, backoffs, input_tokens, output_tokens"
    )
    lease = f"token = %s, lease_until = glove_clock(%s), heard = {HEARD}"
    queued = (
        f"UPDATE agents_turn SET status = 'running', {lease}, reason = '', error = '',"
        f" started_at = COALESCE(started_at, glove_clock(0))"
        f" WHERE id = %s AND status = 'queued' AND not_before <= glove_clock(0) {returning}"
    )
    lapsed = (
        f"UPDATE agents_turn SET {lease}, attempts = attempts + 1"
        f" WHERE id = %s AND status = 'running' AND lease_until < glove_clock(0) {returning}"
    )
    for sql in (queued, lapsed):
        if row := statements.one(sql, [token, lease_s, turn]):
            return Claim(turn, token, *row)
    return None


RENEW = "lease_until = glove_clock(%s)"


def fence(turn: int, token: int, sets: str, values: Any, *, returning: str = "id", asked: Any = ()) -> Any:
    """Write to the turn while it is ours; raises Fenced where it is not. `sets` and `returning` are SQL of the callers' own, with
    `values` and `asked` for their parameters."""
    row = statements.one(
        f"UPDATE agents_turn SET {sets} WHERE id = %s AND token = %s AND status = 'running' RETURNING {returning}",
        [*values, turn, token, *asked],
    )
    if row is None:
        raise Fenced
    return row


def renew(tokens: list[int], lease_s: float) -> None:
    """Renew the leases of running turns, by their tokens. A row that is locked is left out: whoever writes to it renews it or ends
    it, and to wait for one slow transaction would let all the other leases lapse."""
    mine = f"status = 'running' AND token IN ({', '.join(['%s'] * len(tokens))})"
    if connection.vendor != "sqlite":
        mine = f"id IN (SELECT id FROM agents_turn WHERE {mine} FOR NO KEY UPDATE SKIP LOCKED)"
    statements.run(f"UPDATE agents_turn SET {RENEW} WHERE {mine}", [lease_s, *tokens])


def receive(claim: Claim, lease_s: float, mailbox: int) -> Received:
    """Give the queued messages and the mail that this conversation reads their places, once, and read what to answer.

    `heard` is copied before anything is read: what comes after this copy raises `rung` over it, so it is never lost. The same
    statement tells what there is, and what there is not is not asked for."""
    mine = [mailbox, claim.conversation]
    with transaction.atomic():
        place, is_queued, has_mail, is_reminded = fence(
            claim.turn, claim.token, f"{RENEW}, heard = {HEARD}", [lease_s], returning=FOUND, asked=[*mine, *mine]
        )
        messages, more_messages = _queued(claim.conversation) if is_queued else ([], False)
        letters, more_mail = reading.take(mailbox, claim.conversation, claim.turn) if has_mail else ([], False)
        if messages:
            _give_places(messages, place, claim.turn)
        if letters:
            _insert_letters(letters, place + len(messages), claim)
        if more_mail or more_messages:
            fence(claim.turn, claim.token, "heard = -1", [])
        reminders = reading.open_requests(*mine, blocking_only=True) if is_reminded else []
        history = History(read_since_summary(claim.conversation), reminders)
        return Received(history, place + len(messages) + len(letters))


def read_since_summary(conversation: int) -> list[Entry]:
    """The entries from the last summary on: an index look-up, whatever stands before it. As a join the planner would read all."""
    rows = statements.rows(
        "SELECT id, sender, kind, text, blocks FROM agents_message WHERE conversation_id = %s"
        " AND place >= (SELECT head FROM agents_conversation WHERE id = %s) ORDER BY place",
        [conversation, conversation],
    )
    entries = {pk: Entry(sender, text, kind, blocks) for pk, sender, kind, text, blocks in rows}
    asking = [pk for pk, entry in entries.items() if '"tool_use"' in entry.blocks]
    if asking:
        marks = ", ".join(["%s"] * len(asking))
        calls = statements.rows(
            "SELECT message_id, id, call_id, name, input, status, result FROM agents_toolcall"
            f" WHERE message_id IN ({marks}) ORDER BY message_id, position",
            asking,
        )
        for message, pk, call_id, name, given, status, result in calls:
            entries[message].calls.append(Call(call_id, name, given, status, result, pk))
    return list(entries.values())


def insert_message(
    claim: Claim, place: int, text: str, blocks: str = "", *, sender: str = "agent", kind: str = "message"
) -> int:
    """What the turn itself adds to the history, at its place. Returns its id."""
    return statements.one(
        "INSERT INTO agents_message (conversation_id, place, sender, kind, text, blocks, nonce, turn_id, created_at)"
        " VALUES (%s, %s, %s, %s, %s, %s, '', %s, glove_clock(0)) RETURNING id",
        [claim.conversation, place, sender, kind, text, blocks, claim.turn],
    )[0]


def insert_model_calls(rows: list[list[Any]]) -> None:
    """Rows of the ledger: turn, conversation, agent, model, purpose, attempt, four counts of tokens, cost, duration, stop reason
    and error. Their day is the database's."""
    row = "(%s, %s, %s, glove_day(), %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, glove_clock(0))"
    statements.run(
        "INSERT INTO agents_modelcall (turn_id, conversation_id, agent, day, model, purpose, attempt, input_tokens, output_tokens,"
        " cache_read_tokens, cache_write_tokens, cost_micros, duration_ms, stop_reason, error, created_at)"
        f" VALUES {', '.join([row] * len(rows))}",
        [value for values in rows for value in values],
    )


def lock_conversation(conversation: int, *, tokens: tuple[int, int, int] = (0, 0, 0)) -> tuple[int, str]:
    """Lock the row by writing to it: adds tokens in and out, sets the context's size where it is given. Returns rung and status."""
    return statements.one(
        "UPDATE agents_conversation SET input_tokens = input_tokens + %s, output_tokens = output_tokens + %s,"
        " context_tokens = COALESCE(NULLIF(%s, 0), context_tokens) WHERE id = %s RETURNING rung, status",
        [*tokens, conversation],
    )


def raise_rung(conversation: int) -> bool:
    """Lock an open conversation by counting a wake: whatever turn runs hears it, or is followed by one that does. False where it
    is not open."""
    sql = "UPDATE agents_conversation SET rung = rung + 1 WHERE id = %s AND status = 'open' RETURNING id"
    return statements.one(sql, [conversation]) is not None


def insert_turn(conversation: int) -> int | None:
    """A queued turn, unless one is open. Returns its id, or None. The caller holds the conversation's lock, under which no turn
    ends, so looking first is safe; and it spares the wait that the unique constraint would be for a turn that is just writing."""
    row = statements.one(
        "INSERT INTO agents_turn (conversation_id, status, reason, error, attempts, not_before, rung_at, heard, model_calls,"
        " compactions, backoffs, input_tokens, output_tokens, created_at) SELECT %s, 'queued', '', '', 0, glove_clock(0),"
        " glove_clock(0), 0, 0, 0, 0, 0, 0, glove_clock(0) WHERE NOT EXISTS (SELECT 1 FROM agents_turn"
        " WHERE conversation_id = %s AND status IN ('queued', 'running', 'waiting')) ON CONFLICT DO NOTHING RETURNING id",
        [conversation, conversation],
    )
    return row and row[0]


def _queued(conversation: int) -> tuple[list[int], bool]:
    """The messages to give places to, and whether some are left."""
    found = statements.rows(f"SELECT id, text {QUEUED} ORDER BY id LIMIT {reading.MAX_ITEMS + 1}", [conversation])
    most = reading.how_many(len(text.encode()) for _, text in found)
    return [pk for pk, _ in found[:most]], most < len(found)


def _give_places(messages: list[int], place: int, turn: int) -> None:
    cases = " ".join(["WHEN %s THEN %s"] * len(messages))
    pairs = [value for index, pk in enumerate(messages) for value in (pk, place + 1 + index)]
    marks = ", ".join(["%s"] * len(messages))
    statements.run(
        f"UPDATE agents_message SET turn_id = %s, place = CASE id {cases} END WHERE id IN ({marks})",
        [turn, *pairs, *messages],
    )


def _insert_letters(letters: list[reading.Mail], place: int, claim: Claim) -> None:
    values: list[Any] = []
    for index, mail in enumerate(letters):
        nonce = draw_nonce(mail.request, mail.response)
        values += [claim.conversation, place + 1 + index, frame(mail, nonce), nonce, mail.id, claim.turn]
    row = "(%s, %s, 'user', 'inbox', %s, '', %s, %s, %s, glove_clock(0))"
    statements.run(
        "INSERT INTO agents_message (conversation_id, place, sender, kind, text, blocks, nonce, item_id, turn_id, created_at)"
        f" VALUES {', '.join([row] * len(letters))}",
        values,
    )
