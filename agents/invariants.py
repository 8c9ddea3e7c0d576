"""The promises of turns, histories and tool calls, looked for in the data. See inbox/invariants.py."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.conf import settings

from agents import registry
from agents.limits import Limits
from agents.models import Message, ToolCall
from inbox.clock import clock
from inbox.invariants import SHOWN, Check, query, swept_s
from inbox.models import Item

OPEN = "('queued', 'running', 'waiting')"
ENDED = "('done', 'failed', 'cancelled')"


def left_s() -> float:
    """By when a turn that is due, or whose worker was lost, has been taken up: lease and idle session, or the second ring where
    that is set to come later; and the sweep."""
    lease_s = settings.AGENT_LIMITS.get("lease_s", Limits.lease_s)
    return float(max(lease_s + settings.IDLE_TRANSACTION_TIMEOUT_S, settings.RING_AGAIN_S) + swept_s())


def _tool_uses() -> Iterator[str]:
    """The calls of each stored reply against its rows, by the model's ids."""
    replies = Message.objects.filter(sender="agent", blocks__contains='"tool_use"').order_by("pk")
    for pk, blocks in replies.values_list("pk", "blocks").iterator(chunk_size=500):
        asked = Counter(block["id"] for block in _parsed(blocks) if block.get("type") == "tool_use")
        kept = Counter(ToolCall.objects.filter(message=pk).values_list("call_id", flat=True))
        if asked != kept:
            yield f"message {pk}, asked {sorted(asked.elements())}, kept {sorted(kept.elements())}"


def _unrung() -> Iterator[str]:
    """Mail of agents that are not declared is kept unrung for when they are."""
    rows = Item.objects.filter(status=Item.Status.RESOLVED, rung=False, resolved_at__lt=clock(-swept_s()))
    for pk, at in (
        rows.filter(mailbox__agent__in=list(registry.agents)).order_by("pk").values_list("pk", "resolved_at")[:SHOWN]
    ):
        yield f"item {pk}, resolved_at {at}"


def _parsed(blocks: str) -> list[Any]:
    try:
        found = json.loads(blocks)
    except ValueError:
        return []
    return [block for block in found if isinstance(block, dict)] if isinstance(found, list) else []


# The newest turn of each conversation that has none open: how it ended, and whether anything came after it had listened.
NEWEST = (
    "SELECT c.id AS conversation, c.mailbox_id, c.rung, t.heard, t.status, t.started_at FROM agents_conversation c"
    " JOIN agents_turn t ON t.id = (SELECT MAX(n.id) FROM agents_turn n WHERE n.conversation_id = c.id)"
    f" WHERE c.status = 'open' AND t.status IN {ENDED}"
)
QUEUED_TEXT = "SELECT 1 FROM agents_message m WHERE m.conversation_id = newest.conversation AND m.place IS NULL"
ASKED_MAIL = (
    "SELECT 1 FROM inbox_item i WHERE i.mailbox_id = newest.mailbox_id AND i.status = 'resolved' AND i.origin = newest.conversation"
    " AND i.wakes AND i.rung"
)

CHECKS = [
    Check(
        "turn_shape",
        "A running turn has a token and a lease; no other has; an ended one says when.",
        query(
            "SELECT id AS turn, status FROM agents_turn WHERE NOT ("
            "(status = 'running' AND token IS NOT NULL AND lease_until IS NOT NULL AND finished_at IS NULL)"
            " OR (status IN ('queued', 'waiting') AND token IS NULL AND lease_until IS NULL AND finished_at IS NULL)"
            f" OR (status IN {ENDED} AND token IS NULL AND lease_until IS NULL AND finished_at IS NOT NULL))"
        ),
    ),
    Check(
        "turn_one_open",
        "A conversation has at most one open turn.",
        query(
            f"SELECT conversation_id AS conversation, COUNT(*) AS open_turns FROM agents_turn WHERE status IN {OPEN}"
            " GROUP BY conversation_id HAVING COUNT(*) > 1"
        ),
    ),
    Check(
        "turn_of_closed",
        "A closed conversation has no open turn.",
        query(
            "SELECT t.id AS turn, t.status, c.id AS conversation FROM agents_turn t JOIN agents_conversation c"
            f" ON c.id = t.conversation_id WHERE c.status = 'closed' AND t.status IN {OPEN}"
        ),
    ),
    Check(
        "turn_heard",
        "A turn has not heard more than was rung.",
        query(
            "SELECT t.id AS turn, t.heard, c.rung FROM agents_turn t JOIN agents_conversation c ON c.id = t.conversation_id"
            " WHERE t.heard > c.rung"
        ),
    ),
    Check(
        "turn_one_by_one",
        "A turn begins when those before it in its conversation have ended.",
        query(
            "SELECT turn, started_at, before FROM (SELECT id AS turn, started_at, MAX(finished_at) OVER (PARTITION BY"
            " conversation_id ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM agents_turn) AS ordered"
            " WHERE started_at < before"
        ),
    ),
    Check(
        "turn_left",
        "A turn that is due, or whose worker was lost, is taken up within lease, idle session, ring and sweep.",
        query(
            "SELECT id AS turn, status, not_before, lease_until FROM agents_turn WHERE"
            " (status = 'queued' AND not_before < glove_clock(-%(late)s))"
            " OR (status = 'running' AND lease_until < glove_clock(-%(late)s))",
            late=left_s,
        ),
    ),
    Check(
        "conversation_shape",
        "A closed conversation says when it was closed, an open one does not.",
        query(
            "SELECT id AS conversation, status FROM agents_conversation WHERE (status = 'closed') <> (closed_at IS NOT NULL)"
        ),
    ),
    Check(
        "conversation_head",
        "A history begins at its start or at a summary.",
        query(
            "SELECT c.id AS conversation, c.head FROM agents_conversation c WHERE c.head > 0 AND NOT EXISTS (SELECT 1"
            " FROM agents_message m WHERE m.conversation_id = c.id AND m.place = c.head AND m.kind = 'summary')"
        ),
    ),
    Check(
        "message_places",
        "Places in a history are 1, 2, 3 and so on, each once.",
        query(
            "SELECT conversation_id AS conversation, COUNT(place) AS placed, COUNT(DISTINCT place) AS places, MAX(place) AS last"
            " FROM agents_message WHERE place IS NOT NULL GROUP BY conversation_id"
            " HAVING COUNT(place) <> COUNT(DISTINCT place) OR MAX(place) <> COUNT(place) OR MIN(place) <> 1"
        ),
    ),
    Check(
        "message_order",
        "What a user wrote earlier is read earlier.",
        query(
            "SELECT message, place, later FROM (SELECT id AS message, place, MIN(COALESCE(place, 2000000000)) OVER (PARTITION BY"
            " conversation_id ORDER BY id ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS later FROM agents_message"
            " WHERE sender = 'user' AND kind = 'message') AS ordered WHERE later < COALESCE(place, 2000000000)"
        ),
    ),
    Check(
        "message_turn",
        "What a turn put into a history stands in its own conversation's.",
        query(
            "SELECT m.id AS message, m.turn_id AS turn FROM agents_message m JOIN agents_turn t ON t.id = m.turn_id"
            " WHERE m.place IS NULL OR t.conversation_id <> m.conversation_id"
        ),
    ),
    Check(
        "item_read_once",
        "An item enters a transcript once.",
        query(
            "SELECT item_id AS item, COUNT(*) AS messages FROM agents_message WHERE item_id IS NOT NULL"
            " GROUP BY item_id HAVING COUNT(*) > 1"
        ),
    ),
    Check(
        "item_read",
        "A consumed item stands in the transcript of the turn that consumed it. (A purge deletes both.)",
        query(
            "SELECT i.id AS item, i.consumed_in AS turn FROM inbox_item i JOIN agents_turn t ON t.id = i.consumed_in"
            " WHERE i.status = 'consumed' AND i.outcome <> 'withdrawn'"
            " AND NOT EXISTS (SELECT 1 FROM agents_message m WHERE m.item_id = i.id AND m.conversation_id = t.conversation_id)"
        ),
    ),
    Check(
        "item_unread",
        "An item that stands in a transcript is consumed, and was not withdrawn.",
        query(
            "SELECT i.id AS item, i.status, i.outcome, m.id AS message FROM agents_message m JOIN inbox_item i ON i.id = m.item_id"
            " WHERE i.status <> 'consumed' OR i.outcome = 'withdrawn'"
        ),
    ),
    Check(
        "item_place",
        "Mail is read on its own mailbox.",
        query(
            "SELECT i.id AS item, c.id AS conversation FROM agents_message m JOIN inbox_item i ON i.id = m.item_id"
            " JOIN agents_conversation c ON c.id = m.conversation_id WHERE c.mailbox_id <> i.mailbox_id"
        ),
    ),
    Check(
        "item_origin",
        "What is not read yet belongs to an open conversation of its mailbox, or to the mailbox.",
        query(
            "SELECT i.id AS item, i.status, i.origin FROM inbox_item i LEFT JOIN agents_conversation c ON c.id = i.origin"
            " WHERE i.status <> 'consumed' AND i.origin IS NOT NULL"
            " AND (c.id IS NULL OR c.status <> 'open' OR c.mailbox_id <> i.mailbox_id)"
        ),
    ),
    Check("item_unrung", "The wake of a resolved item has happened, or a sweep makes it happen.", _unrung),
    Check(
        "lost_message",
        "A turn that is done leaves no message unread.",
        query(f"SELECT conversation FROM ({NEWEST}) AS newest WHERE newest.status = 'done' AND EXISTS ({QUEUED_TEXT})"),
    ),
    Check(
        "lost_mail",
        "A turn that is done leaves no mail unread that rang for it.",
        query(f"SELECT conversation FROM ({NEWEST}) AS newest WHERE newest.status = 'done' AND EXISTS ({ASKED_MAIL})"),
    ),
    Check(
        "lost_wake",
        "What rang after a turn had listened has a turn of its own, unless that turn was cancelled before it was ever claimed.",
        query(
            f"SELECT conversation, status, rung, heard FROM ({NEWEST}) AS newest WHERE newest.rung > newest.heard"
            " AND NOT (newest.status = 'cancelled' AND newest.started_at IS NULL)"
            f" AND (EXISTS ({QUEUED_TEXT}) OR EXISTS ({ASKED_MAIL}))"
        ),
    ),
    Check(
        "call_shape",
        "A tool call says when it began and ended, as its state demands.",
        query(
            "SELECT id AS call, status FROM agents_toolcall WHERE NOT ("
            "(status IN ('pending', 'waiting', 'deferred') AND finished_at IS NULL)"
            " OR (status = 'running' AND started_at IS NOT NULL AND finished_at IS NULL)"
            " OR (status IN ('done', 'failed', 'unknown') AND started_at IS NOT NULL AND finished_at IS NOT NULL)"
            " OR (status IN ('denied', 'aborted') AND finished_at IS NOT NULL))"
        ),
    ),
    Check(
        "call_of_ended",
        "A turn that has ended has no call that is still to run, runs or waits.",
        query(
            "SELECT k.id AS call, k.status, t.id AS turn FROM agents_toolcall k JOIN agents_turn t ON t.id = k.turn_id"
            f" WHERE t.status IN {ENDED} AND k.status IN ('pending', 'running', 'waiting')"
        ),
    ),
    Check(
        "call_order",
        "Calls of one reply run one after another, in the order that the model gave.",
        query(
            "SELECT k.id AS call, p.id AS before FROM agents_toolcall k JOIN agents_toolcall p ON p.message_id = k.message_id"
            " AND p.position < k.position WHERE k.started_at < p.finished_at AND p.started_at IS NOT NULL"
            " AND p.status IN ('done', 'failed') AND k.status IN ('done', 'failed')"
        ),
    ),
    Check(
        "call_turn",
        "A call belongs to the turn of the reply that asked for it.",
        query(
            "SELECT k.id AS call FROM agents_toolcall k JOIN agents_message m ON m.id = k.message_id WHERE m.turn_id <> k.turn_id"
            " OR m.sender <> 'agent'"
        ),
    ),
    Check("call_journal", "Each tool use of a stored reply has one call, and no call is without one.", _tool_uses),
]
