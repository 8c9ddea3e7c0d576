"""Sends go side by side; what changes who is on the mesh goes alone. On SQLite every write goes alone anyway."""

from django.db import connection

MESH = 0x6D657368
SENT = "(SELECT COUNT(*) FROM mesh_message WHERE sender_id = %s AND created_at > glove_now(-60))"


def together(sender: int) -> int:
    """Held until the transaction ends. Returns how many messages this peer sent within the last minute."""
    lock = f"pg_advisory_xact_lock_shared({MESH})" if connection.vendor == "postgresql" else "0"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {SENT}, {lock}", [sender])
        return cursor.fetchone()[0]


def alone() -> None:
    """Waits for every send under way, and holds new ones until the transaction ends."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [MESH])
