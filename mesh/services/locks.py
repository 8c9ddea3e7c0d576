"""Sends go side by side; what changes who is on the mesh goes alone. On SQLite every write goes alone anyway."""

from django.db import connection

MESH = 0x6D657368


def together() -> None:
    """Held until the transaction ends."""
    _lock("pg_advisory_xact_lock_shared")


def alone() -> None:
    """Waits for every send under way, and holds new ones until the transaction ends."""
    _lock("pg_advisory_xact_lock")


def _lock(function: str) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {function}(%s)", [MESH])
