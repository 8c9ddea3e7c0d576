"""Message ids: UUID version 7 (RFC 9562), as text. They sort by the millisecond in which they were made."""

import secrets
import time
import uuid


def message_id() -> str:
    """A new id."""
    stamp = time.time_ns() // 1_000_000
    value = (stamp & (1 << 48) - 1) << 80 | 0x7 << 76 | secrets.randbits(12) << 64 | 0b10 << 62 | secrets.randbits(62)
    return str(uuid.UUID(int=value))
