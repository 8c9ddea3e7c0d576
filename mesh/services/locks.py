"""Sends go side by side; what changes who is on the mesh goes alone. On SQLite every write goes alone anyway."""

from django.db import connection

MESH = 0x6D657368
TOGETHER = f"pg_advisory_xact_lock_shared({MESH})"  # held until the transaction ends


def together() -> None:
    """Nobody leaves the mesh until the transaction ends."""
    _take(TOGETHER)


def alone() -> None:
    """Waits for every send under way, and holds new ones until the transaction ends."""
    _take(f"pg_advisory_xact_lock({MESH})")


def _take(lock: str) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {lock}")
