"""Sends go side by side; what changes who is on the mesh goes alone. On SQLite every write goes alone anyway."""

from collections.abc import Iterable

from django.db import connection

MESH = 0x6D657368
TOGETHER = f"pg_advisory_xact_lock_shared({MESH})"  # held until the transaction ends


def together() -> None:
    """Nobody leaves the mesh until the transaction ends."""
    _take(TOGETHER)


def alone() -> None:
    """Waits for every send under way, and holds new ones until the transaction ends."""
    _take(f"pg_advisory_xact_lock({MESH})")


def pairs(peer: int, others: Iterable[int]) -> None:
    """One at a time of each pair, whoever of the two it is; taken in the same order by all, and after every other lock."""
    if connection.vendor == "postgresql":
        keys = [f"{low}:{high}" for low, high in sorted((min(peer, other), max(peer, other)) for other in others)]
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT pg_advisory_xact_lock(hashtextextended(k, {MESH})) FROM unnest(%s::text[]) k", [keys]
            )


def _take(lock: str) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {lock}")
