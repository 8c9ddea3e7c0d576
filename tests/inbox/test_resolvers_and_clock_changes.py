"""Case 45: clock changes in three zones over two years, two beats that drift and are restarted: one run per instant."""

import datetime
import random

import pytest

from inbox import resolver
from inbox.models import ResolverRun
from inbox.services import resolvers
from tests.inbox.test_instants import UTC, shifts_of, walk

HOUR = datetime.timedelta(hours=1)


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("line", ["30 2 * * *", "0 * * * *"])
def test_two_beats_over_every_change(declarations, monkeypatch, zone, line):
    """Around each change, two beats tick every 35 minutes or so, out of step; each is restarted now and then, which makes it
    tick at once; sometimes both fall silent for two hours. Ticks outside these windows are a day apart."""
    made = resolver("restock:*", crontab=line, timezone=zone, name="look")(lambda item: None)
    draw = random.Random(f"{zone} {line}")  # the same in each run
    ticks = []
    moment = datetime.datetime(2025, 1, 1, tzinfo=UTC)
    while moment < datetime.datetime(2027, 1, 1, tzinfo=UTC):
        near = any(abs(moment - shift) < 30 * HOUR for shift in shifts_of(zone))
        ticks.append(moment)
        if not near:
            ahead = [shift - 30 * HOUR for shift in shifts_of(zone) if shift - 30 * HOUR > moment]
            moment = min([moment + 24 * HOUR, *ahead]) + datetime.timedelta(seconds=1)
            continue
        if draw.random() < 0.5:
            ticks.append(moment + datetime.timedelta(seconds=draw.choice([0, 0.5, 10, 300])))  # the other beat
        silence = 2 * HOUR if draw.random() < 0.03 else datetime.timedelta(0)
        moment += datetime.timedelta(minutes=35, seconds=draw.uniform(0, 30)) + silence
    expected = set()
    for tick in ticks:
        monkeypatch.setattr(resolvers, "database_time", lambda tick=tick: tick)
        run = resolvers.run_resolver("look")
        latest = made.schedule.latest(tick)
        assert (run and run.instant) == (None if latest in expected else latest), f"{latest} at {tick}"
        expected.add(latest)
    ran = list(ResolverRun.objects.order_by("pk").values_list("instant", flat=True))
    assert len(ran) == len(set(ran)) == len(expected)
    assert ran == sorted(ran)
    if line == "30 2 * * *":
        for shift in shifts_of(zone):  # no day went without its run, whatever its clock did at half past two
            window = walk(made.schedule, shift - 5 * HOUR, shift + 28 * HOUR)
            assert len(window) in (1, 2)
            assert set(window) <= set(ran)
