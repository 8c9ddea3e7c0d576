"""The mesh in the admin."""

from mesh.admin import messages, peers

__all__ = ["messages", "peers"]
