"""The tags of mesh mail."""

from typing import Any

LONGEST = 120


def tag_from(prefix: str, peer: Any) -> str:
    """`mesh:from:<address>`. What a tag cannot hold is written as a dash, and its length is bounded; the request names the peer."""
    address = "".join(char if char.isalnum() or char in "_.:/-" else "-" for char in str(peer))
    return (prefix + address)[:LONGEST]
