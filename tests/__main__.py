"""`make test`: the whole suite on SQLite, and beside it what touches the database again on PostgreSQL where one is found.

Tests that mostly wait, for processes of their own or for a browser, have a run of their own for each database. Each run takes
its tests one after another; side by side they keep both cores of a small machine busy. SQLite's main run never waits: it takes
what the others leave of the processor, or each of their questions to the server, short as it is, would queue behind it.
The last line says which services were not found, what was skipped for that, and how to start them. Arguments go to pytest.
"""

import os
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

from tests.environment import ROOT
from tests.services import POSTGRES, REQUIRED, SERVICES, found, how_to_start, missing

REPORTS = Path(os.environ["GLOVE_VAR"])
TOTAL = REPORTS / "total.txt"
NO_TESTS = 5  # pytest's exit code when nothing was selected


@dataclass(frozen=True)
class Run:
    """One run of pytest on one database, with a part of the tests."""

    name: str
    database_url: str
    options: list[str]
    niceness: int = 0

    @property
    def suffix(self) -> str:
        own = self.name.lower().replace(" ", "_")
        return "_".join(filter(None, [os.environ.get("GLOVE_TEST_DB_SUFFIX"), own]))

    @property
    def report(self) -> Path:
        return REPORTS / f"{self.name}.xml"

    @property
    def output(self) -> Path:
        return REPORTS / f"{self.name}.txt"

    def start(self, arguments: list[str], output: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={self.report}", *self.options, *arguments]
        environment = {**os.environ, "DATABASE_URL": self.database_url, "GLOVE_TEST_DB_SUFFIX": self.suffix}
        return subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=output, preexec_fn=lambda: os.nice(self.niceness)
        )


def runs() -> list[Run]:
    second = found("postgres")
    planned = []
    for waiting, kind in (("no", ""), ("only", " waiting")):
        options = [f"--waiting={waiting}"]
        elsewhere = ["--then-postgres"] if second else []
        planned.append(Run(f"SQLite{kind}", "", [*options, *elsewhere], niceness=0 if kind else 5))
        if second:
            planned.append(Run(f"PostgreSQL{kind}", POSTGRES, [*options, "--database-only"]))
    return planned


def outcomes(report: Path) -> tuple[Counter[str], Counter[str]]:
    """How many tests ended which way, and how many were skipped for which reason."""
    ended: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    if not report.exists():
        return ended, reasons
    for case in ElementTree.parse(report).iter("testcase"):
        if (skipped := case.find("skipped")) is not None:
            ended["skipped"] += 1
            reasons[skipped.get("message", "")] += 1
        else:
            ended["failed" if case.find("failure") is not None or case.find("error") is not None else "passed"] += 1
    return ended, reasons


def closing_lines(done: list[Run]) -> list[str]:
    """What the runs came to, and what was not there."""
    ended: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for one in done:
        one_ended, one_reasons = outcomes(one.report)
        ended += one_ended
        reasons += one_reasons
    total = f"total: {ended['passed']} passed, {ended['failed']} failed, {ended['skipped']} skipped"
    absent = missing()
    if not absent:
        return [total, f"Found and used: {', '.join(service.name for service in SERVICES)}."]
    losses = [f"{service.name} (tests skipped: {reasons[service.reason]})" for service in absent]
    if not found("postgres"):
        losses.append("no second run of the database tests on PostgreSQL")
    return [total, f"Not found: {', '.join(losses)}. To start them: {how_to_start(absent)}"]


def run_side_by_side(first: Run, others: list[Run], arguments: list[str]) -> list[int]:
    """The exit code of each. The first is seen as it goes; what the others say is kept until it is done."""
    with ExitStack() as files:
        beside = [(one, files.enter_context(one.output.open("w+b"))) for one in others]
        print(f"--- {first.name}", flush=True)
        processes = [first.start(arguments), *(one.start(arguments, output) for one, output in beside)]
        codes = [processes[0].wait()]
        for (one, output), process in zip(beside, processes[1:], strict=True):
            print(f"--- {one.name}", flush=True)
            codes.append(process.wait())
            output.seek(0)
            print(output.read().decode(errors="replace"), flush=True)
    return codes


def main(arguments: list[str]) -> int:
    if REQUIRED and (absent := missing()):
        print(f"GLOVE_REQUIRE_SERVICES=1, but these do not answer: {how_to_start(absent)}")
        return 1
    REPORTS.mkdir(parents=True, exist_ok=True)
    for stale in (*REPORTS.glob("*.xml"), TOTAL):
        stale.unlink(missing_ok=True)
    planned = runs()
    codes = run_side_by_side(planned[0], planned[1:], arguments)
    lines = closing_lines(planned)
    TOTAL.write_text(lines[0] + "\n")
    print("\n".join(lines), flush=True)
    # A selection of the caller's may leave one of the runs empty, not all of them.
    return max((code for code in codes if code != NO_TESTS), default=NO_TESTS)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)  # the runs were interrupted by the same keys
