"""Peers that write to each other: messages, deliveries, waits. Declare a fixed address in a glove.py with `peer`."""

from mesh.declare import peer

__all__ = ["peer"]
