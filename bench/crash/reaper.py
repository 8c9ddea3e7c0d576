"""Ends what a crash test has started, when the crash test itself is gone: killed, or ended by an exception.

`python -m bench.crash.reaper FOLDER` reads from its stdin: the id of a process that was started, `+12`, or has ended, `-12`; a
command that stops a server, `!...`. The end of stdin is the end of whoever wrote to it.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path


class Reaper:
    """The writing side: a child with a pipe that nobody else holds."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "bench.crash.reaper", str(folder)]
        # A session of its own: Ctrl-C is the crash test's, which ends by itself.
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def started(self, pid: int) -> None:
        self._tell(f"+{pid}")

    def ended(self, pid: int) -> None:
        self._tell(f"-{pid}")

    def stops_with(self, command: list[str]) -> None:
        """A command that ends a server which is no child."""
        self._tell("!" + "\0".join(command))

    def done(self, *, keep: bool) -> None:
        """Everything has ended; the folder goes, or is kept."""
        if keep:
            self._tell("keep")
        if self._child.stdin:
            self._child.stdin.close()
        self._child.wait()

    def _tell(self, line: str) -> None:
        if self._child.stdin:
            self._child.stdin.write(f"{line}\n".encode())
            self._child.stdin.flush()


def main(folder: str) -> None:
    living: dict[int, None] = {}
    commands: list[list[str]] = []
    keep = False
    for line in sys.stdin:
        kind, rest = line[0], line[1:].rstrip("\n")
        if kind == "+":
            living[int(rest)] = None
        elif kind == "-":
            living.pop(int(rest), None)
        elif kind == "!":
            commands.append(rest.split("\0"))
        else:
            keep = True
    for pid in living:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for command in commands:
        subprocess.run(command, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
