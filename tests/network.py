"""A test that would leave this machine fails: no real model, no real webhook, no name server."""

import functools
import ipaddress
import socket
import ssl
from collections.abc import Iterator

import pytest

_attempts: list[str] = []


class NetworkBlocked(OSError):
    """A test tried to reach beyond loopback."""


def _refuse(target: object) -> None:
    _attempts.append(str(target))
    raise NetworkBlocked(f"{target}: tests stay on this machine")


def _is_address(host: str) -> bool:
    """Whether the text is an address in any spelling that the system takes (0x7f000001 is one), so that nobody is asked."""
    try:
        socket.inet_aton(host)
    except OSError:
        return ":" in host
    return True


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def _guard(connect):
    def guarded(self, address):
        # Anything but a tuple is the path of a Unix socket.
        if isinstance(address, tuple) and not _is_loopback(str(address[0])):
            _refuse(address)
        return connect(self, address)

    return guarded


def _guard_look_up(look_up):
    def guarded(host, *args, **kwargs):
        name = host.decode() if isinstance(host, bytes) else host
        if name and name != "localhost" and not _is_address(name):
            _refuse(name)
        return look_up(host, *args, **kwargs)

    return guarded


@pytest.fixture(scope="session", autouse=True)
def _guard_the_network() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", _guard(socket.socket.connect))
        patch.setattr(socket.socket, "connect_ex", _guard(socket.socket.connect_ex))
        patch.setattr(socket, "getaddrinfo", _guard_look_up(socket.getaddrinfo))
        yield


@pytest.fixture(autouse=True)
def network_attempts() -> Iterator[list[str]]:
    """What the test tried to reach. A test that means to try empties the list; anything left in it fails the test."""
    _attempts.clear()
    yield _attempts
    if _attempts:
        pytest.fail(f"This test tried to reach beyond this machine: {', '.join(_attempts)}", pytrace=False)


@pytest.fixture(scope="session", autouse=True)
def _read_the_certificates_once() -> Iterator[None]:
    """Every client of a model reads all of the system's anew, for a tenth of a second, and no test speaks TLS."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))
        yield
