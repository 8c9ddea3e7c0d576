"""Declaring fixed addresses on the mesh, in a `glove.py` of one's own app."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from inbox.errors import InboxError
from inbox.tags import check_address
from inbox.text import check
from mesh.errors import BadPeer

NAME_LENGTH = 100  # of a capability or a topic


@dataclass(frozen=True)
class DeclaredPeer:
    """A fixed address. `agent` reads its mail; with none it is an outside peer, which comes with a key of its own."""

    address: str
    agent: str = ""
    public: bool = False
    description: str = ""
    capabilities: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)


declared: dict[str, DeclaredPeer] = {}


def peer(
    address: str,
    *,
    agent: str = "",
    public: bool = False,
    description: str = "",
    capabilities: Sequence[str] = (),
    topics: Sequence[str] = (),
    metadata: dict[str, Any] | None = None,
) -> DeclaredPeer:
    """Declare an ownerless address such as `planner`. It exists from the next migrate or start on.

    `public`: everyone on the mesh may see it and write to it. Description and capabilities default to the agent's.
    Raises BadAddress, and BadPeer for an address that is declared twice, or what cannot be shown to others.
    """
    check_address(address)
    if address.lower() in declared:
        raise BadPeer(f"The address {address} is declared twice.")
    try:
        for name in (*capabilities, *topics):
            check(name, what=f"The name {name!r}", limit=NAME_LENGTH)
        json.dumps(metadata, allow_nan=False)
    except (InboxError, TypeError, ValueError) as error:
        raise BadPeer(f"The peer {address} cannot be declared: {error}") from error
    one = DeclaredPeer(address, agent, public, description, tuple(capabilities), tuple(topics), dict(metadata or {}))
    declared[address.lower()] = one
    return one
