"""Wrong settings and declarations are named, with the way to mend them."""

import pytest

from mesh import checks, peer


@pytest.mark.parametrize(
    "transports",
    [
        {},
        {"default": {}},
        {"default": {"BACKEND": "nowhere.Transport"}},
        {"default": {"BACKEND": "mesh.models.Peer"}},
        {"default": {"BACKEND": "mesh.transports.Transport"}},
        {"default": 7},
    ],
)
def test_transports(settings, transports):
    assert checks.check_transports() == []
    settings.MESH_TRANSPORTS = transports
    (error,) = checks.check_transports()
    assert error.id == "mesh.E001"
    assert "DatabaseTransport" in error.hint


@pytest.mark.parametrize(
    "limits", [7, {"hop": 8}, {"hops": -1}, {"hops": True}, {"wait_s": 0}, {"wait_s": 10**9}, {"hops": "8"}]
)
def test_limits(settings, limits):
    settings.MESH_LIMITS = {"hops": 3, "wait_s": 60}
    assert checks.check_limits() == []
    settings.MESH_LIMITS = limits
    (error,) = checks.check_limits()
    assert error.id == "mesh.E002"
    assert "messages_per_minute" in error.hint


def test_agents_of_peers(worker):
    peer("planner", agent="worker")
    peer("erp")
    assert checks.check_peers() == []
    peer("stranger", agent="nobody")
    (error,) = checks.check_peers()
    assert (error.id, "stranger" in error.msg) == ("mesh.E003", True)
