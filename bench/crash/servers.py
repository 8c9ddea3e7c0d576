"""A PostgreSQL and a Redis of the crash tests' own, which may be stopped, emptied and restarted in mid-load."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import scratch
from bench.crash.reaper import Reaper

ANSWERS_S = 30


class NotFound(Exception):
    """A program that is needed is not installed."""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Redis:
    """`redis-server` that keeps nothing on disk."""

    def __init__(self, reaper: Reaper) -> None:
        self.reaper = reaper
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if not (program := shutil.which("redis-server")):
            raise NotFound("redis-server")
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
        self.reaper.started(self._process.pid)
        _until(lambda: self._client().ping(), "Redis")

    def stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            self.reaper.ended(self._process.pid)
            self._process = None

    def flush(self) -> None:
        self._client().flushall()

    def _client(self) -> Any:
        import redis

        return redis.Redis.from_url(self.url, socket_timeout=2)


class Postgres:
    """A cluster in a folder, run by the user `postgres` where we are root, which it refuses to run as."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "cluster"
        self.port = free_port()
        self.url = f"postgres://postgres@127.0.0.1:{self.port}/postgres"
        self._programs = _programs()
        self._as: list[str] = []
        if os.geteuid() == 0:
            self._as = ["runuser", "-u", "postgres", "--"]
            folder.chmod(0o755)
            shutil.chown(_made(self.folder), "postgres")

    def start(self) -> None:
        if not (self.folder / "PG_VERSION").exists():
            self._run("initdb", "-D", str(self.folder), "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8")
        options = (
            f"-c port={self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c max_connections=200"
        )
        self._control("start", "-w", "-o", options)

    def restart_at_once(self) -> None:
        """What a power cut would do to it: no farewell, and recovery from its log."""
        self._control("restart", "-w", "-m", "immediate")

    def stop(self) -> None:
        if (self.folder / "postmaster.pid").exists():
            self._control("stop", "-m", "immediate")

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", "-D", str(self.folder), "-l", str(self.folder / "log"), *arguments)

    def command(self, program: str, *arguments: str) -> list[str]:
        """How one of the server's programs is run here."""
        return [*self._as, str(self._programs / program), *arguments]

    def _run(self, program: str, *arguments: str) -> None:
        command = self.command(program, *arguments)
        done = subprocess.run(
            command, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stdout}")


@contextlib.contextmanager
def postgres(folder: Path, reaper: Reaper) -> Iterator[tuple[str, Postgres | None]]:
    """The URL of an empty database, and its server where it is our own: without the server's programs, DATABASE_URL names one that
    is not ours to restart."""
    try:
        server = Postgres(folder)
    except NotFound:
        with scratch.database(f"glove_crash_{os.getpid()}") as url:
            yield url, None
        return
    reaper.stops_with(server.command("pg_ctl", "-D", str(server.folder), "stop", "-m", "immediate"))
    server.start()
    try:
        with scratch.database("glove_crash", server.url) as url:
            yield url, server
    finally:
        server.stop()


def _programs() -> Path:
    """Where initdb is: Debian keeps it off the path."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not folders:
        raise NotFound("initdb")
    return folders[-1].parent


def _made(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    return folder


def _until(true: Any, what: str) -> None:
    ends = time.monotonic() + ANSWERS_S
    while True:
        try:
            if true():
                return
        except Exception:
            if time.monotonic() > ends:
                raise RuntimeError(f"{what} does not answer") from None
        time.sleep(0.05)
