"""The site's processes: workers, a web process, a beat. Started as in production; killed, stopped and continued by real signals."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from bench.crash.reaper import Reaper

READY = {"worker": " ready.", "web": "Uvicorn running", "beat": "beat: Starting"}
START_S = 90


class Process:
    """One process of the site. Its name is its own: a successor has another."""

    def __init__(
        self, kind: str, name: str, command: list[str], environment: dict[str, str], folder: Path, reaper: Reaper
    ) -> None:
        self.kind, self.name, self.folder = kind, name, folder
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as out:
            # A session of its own: a stopped process whose group loses its leader would get SIGHUP, which nobody sent.
            self._process = subprocess.Popen(
                command,
                env={**environment, "CRASH_NAME": name},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._reaper = reaper
        reaper.started(self.pid)
        self._began, self._ready = time.monotonic(), False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ready(self) -> bool:
        self._ready = self._ready or READY[self.kind] in self.output
        if self._process.poll() is not None or (not self._ready and time.monotonic() > self._began + START_S):
            raise RuntimeError(f"{self.name} ended, or has not started:\n{self.output[-3000:]}")
        return self._ready

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_ready(self) -> "Process":
        while not self.ready:
            time.sleep(0.1)
        return self

    # --- The points
    def arm(self, point: str) -> None:
        """Ask it to stand still at this point."""
        new = self._file("new")
        new.write_text(point)
        new.rename(self._file("armed"))

    def is_at(self) -> bool:
        return self._file("hit").exists()

    def disarm(self) -> None:
        """Nothing at all reached the point; or whoever stands there may go on."""
        self._file("go").touch()
        self._file("armed").unlink(missing_ok=True)

    def reset(self) -> None:
        for kind in ("armed", "hit", "go"):
            self._file(kind).unlink(missing_ok=True)

    # --- Signals
    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reaper.ended(self.pid)

    def pause(self, seconds: float) -> None:
        """Stop it for so long, and let it go on."""
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._file("go").touch()
        self._process.send_signal(signal.SIGCONT)
        time.sleep(0.1)  # whoever stands at the point sees that it may go
        self.reset()

    def ask_to_stop(self) -> None:
        self._process.terminate()

    def wait(self, within_s: float) -> int | None:
        """Its exit code; None where it still runs."""
        try:
            code = self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return None
        self._reaper.ended(self.pid)
        return code

    def _file(self, kind: str) -> Path:
        return self.folder / f"{self.name}.{kind}"


class Site:
    """How the processes are started."""

    def __init__(
        self, folder: Path, database: str, redis: str, web_port: int, times: dict[str, float], reaper: Reaper
    ) -> None:
        self.folder, self.reaper = folder, reaper
        self.started: list[Process] = []
        self.web_port = web_port
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GLOVE_", "ANTHROPIC_"))}
        self.environment = {
            **kept,
            "DJANGO_SETTINGS_MODULE": "bench.crash.settings",
            "DATABASE_URL": database,
            "REDIS_URL": redis,
            "DEBUG": "0",
            "SECRET_KEY": "only-for-crash-tests-" + "x" * 40,
            "GLOVE_VAR": str(folder / "var"),
            "GLOVE_QUEUE": "crash",
            "GLOVE_WORKER_THREADS": "6",
            "LOG_LEVEL": "INFO",
            "CRASH_FOLDER": str(folder),
            "CRASH_EFFECTS": str(folder / "effects"),
            **{f"GLOVE_{name}_S": str(seconds) for name, seconds in times.items()},
        }

    def start(self, kind: str) -> Process:
        celery = [sys.executable, "-m", "celery", "-A", "glove_site"]
        name = f"{kind}{len(self.started)}"
        options = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-n", f"{name}@crash"]
        uvicorn = [
            sys.executable,
            "-m",
            "uvicorn",
            "glove_site.asgi:application",
            "--lifespan",
            "off",
            "--port",
            str(self.web_port),
        ]
        command = {
            "worker": [*celery, "worker", "-P", "threads", *options],
            "beat": [*celery, "beat", "--pidfile=", "--max-interval", "1"],
            "web": [*uvicorn, "--no-access-log"],
        }[kind]
        process = Process(kind, name, command, self.environment, self.folder, self.reaper)
        self.started.append(process)
        return process

    def end(self) -> None:
        """All of them, whatever they do."""
        for process in self.started:
            process.kill()
