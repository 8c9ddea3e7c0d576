"""Child processes of the tests: started, watched, and ended by their own id, whatever happens."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.environment import ROOT

START_S = 60  # for imports on a busy machine
STOP_S = 40


class Child:
    """A process of ours, and what it has written, stdout and stderr together."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self.log = log
        self._file = log.open("wb")
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=self._file, stderr=subprocess.STDOUT
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, text: str, within_s: float = START_S) -> None:
        """Wait until it has written this; fail with all that it wrote if it does not, or ends."""
        ends = time.monotonic() + within_s
        while text not in self.output:
            if self.process.poll() is not None and text not in self.output:
                pytest.fail(
                    f"ended with {self.process.returncode} before it wrote {text!r}:\n{self.output}", pytrace=False
                )
            if time.monotonic() > ends:
                pytest.fail(f"has not written {text!r} within {within_s} s:\n{self.output}", pytrace=False)
            time.sleep(0.05)

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM, within_s: float = STOP_S) -> int:
        """Ask it to stop; its exit code."""
        self.send(number)
        return self.wait(within_s)

    def wait(self, within_s: float = STOP_S) -> int:
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still runs after {within_s} s:\n{self.output}", pytrace=False)

    def kill(self) -> None:
        """SIGKILL, also to a stopped one; no complaint if it is gone."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(STOP_S)
        self._file.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Child]]:
    """`start("manage.py", "serve", env=...)`: a Python child of the project. All are gone at the end of the test."""
    children: list[Child] = []

    def start_one(*arguments: str, env: dict[str, str], command: list[str] | None = None) -> Child:
        log = tmp_path / f"child-{len(children)}.log"
        child = Child([*(command or [sys.executable]), *arguments], env, log)
        children.append(child)
        return child

    yield start_one
    for child in children:
        child.kill()


@pytest.fixture
def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def until(true: Callable[[], Any], within_s: float = 30, every_s: float = 0.1) -> Any:
    """Wait until it is true and return what it was; fail if it does not become so."""
    ends = time.monotonic() + within_s
    while not (found := true()):
        if time.monotonic() > ends:
            pytest.fail(f"not so within {within_s} s", pytrace=True)
        time.sleep(every_s)
    return found


def plain_environment(**changes: str) -> dict[str, str]:
    """The tests' environment without a database, changed."""
    return {**{name: value for name, value in os.environ.items() if name != "DATABASE_URL"}, **changes}
