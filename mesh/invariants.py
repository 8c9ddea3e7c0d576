"""The promises of the mesh, looked for in the data. See inbox/invariants.py."""

from inbox.invariants import Check, query, swept_s
from mesh.limits import mesh_limits
from mesh.services.waits import ACKNOWLEDGED

REACHABLE = (
    "(SELECT COUNT(*) FROM mesh_delivery d JOIN mesh_peer p ON p.id = d.recipient_id WHERE d.message_id = m.id"
    " AND d.acknowledged_at IS NULL AND d.status <> 'dead' AND p.retired_at IS NULL)"
)
PENDING_WAIT = "JOIN inbox_item w ON w.id = m.wait_id AND w.status = 'pending'"

CHECKS = [
    Check(
        "mesh_delivered",
        "A delivery is delivered into its recipient's mailbox, or still queued, or dead with a reason.",
        query(
            "SELECT d.id AS delivery, d.status FROM mesh_delivery d JOIN mesh_peer p ON p.id = d.recipient_id"
            " LEFT JOIN inbox_item i ON i.id = d.item_id WHERE (d.status = 'delivered' AND i.mailbox_id <> p.mailbox_id)"
            " OR (d.status <> 'delivered' AND d.item_id IS NOT NULL) OR (d.status = 'dead' AND d.reason = '')"
        ),
    ),
    Check(
        "mesh_queued",
        "What a transport left queued is delivered, or dead, by a sweep.",
        query(
            "SELECT id AS delivery, created_at FROM mesh_delivery WHERE status = 'queued'"
            " AND created_at < glove_clock(-%(late)s)",
            late=swept_s,
        ),
    ),
    Check(
        "mesh_once",
        "A letter is one delivery's, and says what its message says.",
        query(
            "SELECT d.item_id AS item, COUNT(*) AS deliveries FROM mesh_delivery d WHERE d.item_id IS NOT NULL"
            " GROUP BY d.item_id HAVING COUNT(*) > 1"
        ),
    ),
    Check(
        "mesh_content",
        "A letter says what its message says.",
        query(
            "SELECT d.id AS delivery, d.item_id AS item FROM mesh_delivery d JOIN mesh_message m ON m.id = d.message_id"
            " JOIN inbox_item i ON i.id = d.item_id WHERE i.response <> m.content"
        ),
    ),
    Check(
        "mesh_sender",
        "A delivery's sender is its message's, and nobody writes to itself.",
        query(
            "SELECT d.id AS delivery FROM mesh_delivery d JOIN mesh_message m ON m.id = d.message_id"
            " WHERE d.sender_id <> m.sender_id OR d.recipient_id = m.sender_id"
        ),
    ),
    Check(
        "mesh_reply",
        "Who replies was an addressee, and the reply goes to who asked.",
        query(
            "SELECT m.id AS message, m.in_reply_to_id AS parent FROM mesh_message m JOIN mesh_message p ON p.id = m.in_reply_to_id"
            " JOIN mesh_delivery d ON d.message_id = m.id WHERE d.recipient_id <> p.sender_id OR NOT EXISTS"
            " (SELECT 1 FROM mesh_delivery a WHERE a.message_id = p.id AND a.recipient_id = m.sender_id AND a.status = 'delivered')"
        ),
    ),
    Check(
        "mesh_wait",
        "A blocking message has a wait in its sender's mailbox, made with it.",
        query(
            "SELECT m.id AS message, w.tag FROM mesh_message m JOIN mesh_peer p ON p.id = m.sender_id"
            " JOIN inbox_item w ON w.id = m.wait_id WHERE NOT m.blocking OR w.mailbox_id <> p.mailbox_id"
            " OR w.tag <> 'mesh:waiting:' || m.id"
        ),
    ),
    Check(
        "mesh_wait_met",
        "A wait whose quorum is met has ended.",
        query(
            f"SELECT m.id AS message, m.quorum FROM mesh_message m {PENDING_WAIT} WHERE {ACKNOWLEDGED} >= m.quorum"
            f" OR (m.everyone AND {ACKNOWLEDGED} > 0 AND {REACHABLE} = 0)"
        ),
    ),
    Check(
        "mesh_wait_hopeless",
        "A wait that can no longer be met has ended.",
        query(
            f"SELECT m.id AS message, m.quorum FROM mesh_message m {PENDING_WAIT}"
            f" WHERE {ACKNOWLEDGED} + {REACHABLE} < CASE WHEN m.everyone THEN 1 ELSE m.quorum END"
        ),
    ),
    Check(
        "mesh_hops",
        "No chain is longer than its budget.",
        query(
            "SELECT id AS message, root, hops FROM mesh_message WHERE hops > %(budget)s",
            budget=lambda: mesh_limits().hops,
        ),
    ),
]
