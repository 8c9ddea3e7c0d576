"""The bounds of the mesh, overridden by settings.MESH_LIMITS."""

from dataclasses import dataclass, replace

from django.conf import settings


@dataclass(frozen=True)
class MeshLimits:
    """Seconds end in `_s`."""

    hops: int = 8  # messages that may follow one another without a person or the world between them
    messages_per_minute: int = 60  # of one peer
    wait_s: int = 24 * 3600  # how long a blocking send waits


def mesh_limits() -> MeshLimits:
    """As settings have them now."""
    return replace(MeshLimits(), **settings.MESH_LIMITS)
