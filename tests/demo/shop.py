"""A whole installation in a folder of its own: `manage.py demo` and `manage.py serve` on SQLite, as README tells."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.environment import ROOT
from tests.processes import Child, plain_environment

STOCK = "sku,name,cents,bags\nyirgacheffe,Yirgacheffe,1800,24\nhuila,Huila,1650,0\ndecaf,Sierra Decaf,1550,1\n"
ROASTS = "sku,day,bags\nhuila,Thursday,12\n"


@dataclass
class Installation:
    """Commands, the served process and the stock file of one installation."""

    start: Callable[..., Child]
    folder: Path
    port: int
    passwords: dict[str, str] = field(default_factory=dict)
    served: Child | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return plain_environment(
            GLOVE_VAR=str(self.folder / "var"), GLOVE_DEMO_STOCK=str(self.stock), GLOVE_DEMO_ROASTS=str(self.roasts)
        )

    @property
    def stock(self) -> Path:
        return self.folder / "stock.csv"

    @property
    def roasts(self) -> Path:
        return self.folder / "roasts.csv"

    def has(self, sku: str, bags: int) -> None:
        """Edit the stock file as an editor does: a new file in place of the old one."""
        text = re.sub(rf"^({sku},.*,)\d+$", rf"\g<1>{bags}", self.stock.read_text(), flags=re.MULTILINE)
        edited = self.stock.with_suffix(".new")
        edited.write_text(text)
        os.replace(edited, self.stock)

    def command(self, *words: str, **changes: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT, env={**self.environment, **changes}, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    def demo(self, *words: str) -> str:
        """`manage.py demo`; keeps the passwords that it prints."""
        done = self.command("demo", "--port", str(self.port), *words)
        assert done.returncode == 0, done.stderr
        found = re.findall(r"^  (\w+) +(\w{4}-\w{4}-\w{4}) ", done.stdout, re.MULTILINE)
        self.passwords.update(dict(found))
        return done.stdout

    def serve(self) -> None:
        self.served = self.start("manage.py", "serve", "--port", str(self.port), env=self.environment)
        self.served.wait_for("Glove is running")

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End the served process; by SIGKILL, as a power cut does."""
        assert self.served is not None
        self.served.send(number)
        self.served.wait()

    def pay(self) -> str:
        """Run the command that `demo` prints, exactly as printed."""
        (line,) = [line for line in self.demo().splitlines() if line.startswith("curl ")]
        done = subprocess.run(shlex.split(line), capture_output=True, text=True, check=False, timeout=30)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def shop(start, free_port, tmp_path) -> Installation:
    """A served installation, its demo data made."""
    shop = Installation(start, tmp_path, free_port)
    shop.stock.write_text(STOCK)
    shop.roasts.write_text(ROASTS)
    shop.serve()
    shop.demo()
    return shop
