"""The short form of bench.crash: real workers, a web process and a beat, killed and stopped at each named point once; sessions
ended, PostgreSQL restarted immediately, Redis emptied and stopped; a deploy. Promises 3, 4, 9, 11, 16; cases 2-4, 7, 8, 18."""

import re
import shutil

import pytest

from bench.crash.points import POINTS
from tests.services import REQUIRED

pytestmark = [pytest.mark.postgres, pytest.mark.redis, pytest.mark.slow, pytest.mark.timeout(600)]
COUNTS = re.compile(r"^\| (.+?) \| .* \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE)


def test_nothing_is_lost_doubled_illegal_stuck_or_orphaned_at_any_point(start, child_environment):
    """The table has a line for each point and outage, and only zeros in it. The seed is in the output."""
    if shutil.which("redis-server") is None and not REQUIRED:
        pytest.skip("needs the program redis-server, to stop one of its own (apt-get install redis-server)")
    bench = start("-m", "bench.crash", env=child_environment)
    assert bench.wait(580) == 0, bench.output
    lines = COUNTS.findall(bench.output)
    assert {name.partition(" (")[0] for name, *_ in lines} >= set(POINTS)
    assert all(set(counts) == {"0"} for _, *counts in lines), bench.output
