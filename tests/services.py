"""The servers and the browser that some tests need: found by talking to them, reported when they are not there.

A test says what it needs by a marker (`redis`, `nats`, `browser`, `postgres`). Without it the test is skipped, and the end
of the run says so and how to start it; with GLOVE_REQUIRE_SERVICES=1 (CI) the test fails instead.
"""

import os
import shutil
import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import pytest

ANSWER_S = 2  # how long a service may take to answer before it counts as missing
REQUIRED = os.environ.get("GLOVE_REQUIRE_SERVICES") == "1"
POSTGRES = os.environ.get("GLOVE_TEST_POSTGRES", "postgres://postgres@127.0.0.1:5432/postgres")
REDIS = os.environ.get("GLOVE_TEST_REDIS", "redis://127.0.0.1:6379").rstrip("/")
LOCKS = 15  # the Redis database that says which of the others is in use by which run
# No test asks for NATS yet: it is for the transport to other hosts, which is to come. CI (.ci/run) starts it and fails without it
# already, so that the first test that asks finds it there.
NATS = os.environ.get("GLOVE_TEST_NATS", "nats://127.0.0.1:4222")
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def postgres_answers() -> bool:
    import psycopg

    try:
        with psycopg.connect(POSTGRES, connect_timeout=ANSWER_S) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.Error:
        return False


def redis_answers() -> bool:
    import redis

    try:
        with redis.Redis.from_url(REDIS, socket_connect_timeout=ANSWER_S, socket_timeout=ANSWER_S) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def nats_answers() -> bool:
    """A NATS server speaks first, with a line that begins with INFO."""
    address = urlsplit(NATS)
    try:
        with socket.create_connection((address.hostname or "127.0.0.1", address.port or 4222), ANSWER_S) as connection:
            return connection.recv(5) == b"INFO "
    except OSError:
        return False


@cache
def chromium_path() -> str | None:
    """Where Chromium is, or None; GLOVE_TEST_CHROMIUM names another one."""
    named = os.environ.get("GLOVE_TEST_CHROMIUM")
    found = (shutil.which(name) for name in ([named] if named else CHROMIUM_NAMES))
    return next((path for path in found if path), None)


def chromium_answers() -> bool:
    path = chromium_path()
    return path is not None and subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0


@dataclass(frozen=True)
class Service:
    """One thing that tests may need: the marker that asks for it, how to see that it is there, how to start it."""

    marker: str
    name: str
    answers: Callable[[], bool]
    start: str

    @property
    def reason(self) -> str:
        return f"needs {self.name}"


SERVICES = (
    Service("postgres", "PostgreSQL", postgres_answers, "docker compose up -d postgres"),
    Service("redis", "Redis", redis_answers, "docker compose up -d redis"),
    Service("nats", "NATS", nats_answers, "docker compose up -d nats"),
    Service("browser", "Chromium", chromium_answers, "apt-get install chromium"),
)


@cache
def found(marker: str) -> bool:
    """Whether the service behind a marker answers. Asked once in a run."""
    return next(service for service in SERVICES if service.marker == marker).answers()


def missing() -> list[Service]:
    return [service for service in SERVICES if not found(service.marker)]


def how_to_start(services: list[Service]) -> str:
    """One line: what to type for these services to be there."""
    return "; ".join(f"{service.name}: {service.start}" for service in services)


# --- The pytest side
def pytest_itemcollected(item: pytest.Item) -> None:
    for fixture, marker in (("redis_url", "redis"), ("nats_url", "nats")):
        if fixture in getattr(item, "fixturenames", ()):
            item.add_marker(marker)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for service in SERVICES:
        # On which database the tests run is decided before pytest starts: tests.database looks after that marker.
        if service.marker == "postgres" or item.get_closest_marker(service.marker) is None or found(service.marker):
            continue
        if REQUIRED:
            pytest.fail(f"{service.reason}, which does not answer ({service.start})", pytrace=False)
        pytest.skip(service.reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in skipped if isinstance(report.longrepr, tuple)
    )
    for service in SERVICES:
        if count := reasons.get(service.reason):
            tests = "1 test was" if count == 1 else f"{count} tests were"
            terminalreporter.write_line(f"{service.name} was not found, {tests} skipped. To start it: {service.start}")


@pytest.fixture
def redis_url() -> Iterator[str]:
    """A Redis database of this test's own, empty at the start and at the end."""
    import redis

    with redis.Redis.from_url(f"{REDIS}/{LOCKS}") as locks:
        number = next((number for number in range(LOCKS - 1, 0, -1) if _take(locks, number)), None)
        if number is None:
            pytest.fail(f"Each of the databases 1 to {LOCKS - 1} of {REDIS} is in use or holds data.", pytrace=False)
        url = f"{REDIS}/{number}"
        yield url
        with redis.Redis.from_url(url) as client:
            client.flushdb()
        locks.delete(f"glove:tests:{number}")


def _take(locks: Any, number: int) -> bool:
    """Lock a database that is empty, or was left behind by a run that is no more. Two runs never share one."""
    import redis

    lock = f"glove:tests:{number}"
    owner = locks.get(lock)
    if owner and _runs(int(owner)):
        return False
    with redis.Redis.from_url(f"{REDIS}/{number}") as client:
        if owner:
            client.flushdb()
            locks.delete(lock)
        return client.dbsize() == 0 and bool(locks.set(lock, os.getpid(), nx=True))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's
    return True


@pytest.fixture
def nats_url() -> str:
    return NATS
