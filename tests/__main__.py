"""`make test`: the whole suite on SQLite, then what touches the database again on PostgreSQL where one is found.

The last line says which services were not found, what was skipped for that, and how to start them. Arguments go to pytest.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from tests.environment import ROOT
from tests.services import POSTGRES, REQUIRED, SERVICES, found, how_to_start, missing

REPORTS = Path(os.environ["GLOVE_VAR"])
NO_TESTS = 5  # pytest's exit code when nothing was selected


def run(name: str, database_url: str, arguments: list[str]) -> int:
    """One run of pytest on one database, which leaves a report."""
    print(f"--- {name}", flush=True)
    report = REPORTS / f"{name.lower()}.xml"
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "DATABASE_URL": database_url}, check=False).returncode


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


def closing_lines() -> list[str]:
    """What the runs came to, and what was not there."""
    ended: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for name in ("sqlite", "postgresql"):
        one_ended, one_reasons = outcomes(REPORTS / f"{name}.xml")
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


def main(arguments: list[str]) -> int:
    if REQUIRED and (absent := missing()):
        print(f"GLOVE_REQUIRE_SERVICES=1, but these do not answer: {how_to_start(absent)}")
        return 1
    REPORTS.mkdir(parents=True, exist_ok=True)
    for stale in (*REPORTS.glob("*.xml"), REPORTS / "total.txt"):
        stale.unlink(missing_ok=True)
    codes = [run("SQLite", "", [*(["--then-postgres"] if found("postgres") else []), *arguments])]
    if found("postgres"):
        codes.append(run("PostgreSQL", POSTGRES, ["--database-only", *arguments]))
    lines = closing_lines()
    (REPORTS / "total.txt").write_text(lines[0] + "\n")
    print("\n".join(["", *lines]), flush=True)
    # A selection of the caller's may leave one of the runs empty, not all of them.
    return max((code for code in codes if code != NO_TESTS), default=NO_TESTS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
