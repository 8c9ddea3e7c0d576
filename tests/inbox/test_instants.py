"""The instants of a schedule: one run each, also where clocks change. Case 45."""

import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inbox.instants import DAY, MINUTE, UTC, Crontab, Every, from_text

# One with an hour at night, one on the other side of the world, one that shifts by half an hour, one that leaps at midnight.
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago")
BEGIN = datetime.datetime(2025, 1, 1, tzinfo=UTC)
END = datetime.datetime(2027, 1, 1, tzinfo=UTC)
FIXED = ("30 2 * * *", "0,30 1,2,3 * * *", "15 0 * * *", "45 23 * * *", "30 2 * * 0", "0 2 1-7 * sun")
HOURLY = ("0 * * * *", "*/15 * * * *", "50 * * 3,4,10,11 *")


def shifts(zone):
    """The moments at which clocks there change, to the minute."""
    moment, found = BEGIN, []
    while moment < END:
        if moment.astimezone(zone).utcoffset() != (moment + DAY).astimezone(zone).utcoffset():
            inner = moment
            while inner.astimezone(zone).utcoffset() == (inner + MINUTE).astimezone(zone).utcoffset():
                inner += MINUTE
            found.append(inner + MINUTE)
        moment += DAY
    return found


def walk(schedule, since=BEGIN, until=END):
    """Every instant, found as a run finds it: the latest up to a moment, and on from just before it."""
    found, moment = [], until
    while (instant := schedule.latest(moment)) and instant >= since:
        assert instant <= moment
        found.append(instant)
        moment = instant - datetime.timedelta(microseconds=1)
    return found[::-1]


@pytest.mark.parametrize("zone", ZONES)
def test_the_zones_do_change_their_clocks(zone):
    assert len(shifts(ZoneInfo(zone))) == 4


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("line", FIXED)
def test_certain_hours_run_once_for_each_local_time_of_two_years(zone, line):
    """Counted over local days, with no arithmetic of moments: as many instants as the calendar names, each at its local time."""
    schedule = from_text(line, zone)
    parsed, local = schedule._parsed, ZoneInfo(zone)
    named = set()
    day = BEGIN.astimezone(local).date() + DAY
    last = END.astimezone(local).date() - DAY
    while day < last:
        if day.day in parsed.day_of_month and day.isoweekday() % 7 in parsed.day_of_week:
            named |= {
                datetime.datetime.combine(day, datetime.time(hour, minute))
                for hour in parsed.hour
                for minute in parsed.minute
            }
        day += DAY
    found = [instant.astimezone(local) for instant in walk(schedule)]
    ran = [moment.replace(tzinfo=None) for moment in found]
    assert len(set(ran)) == len(ran), "no local time twice"
    leapt = named - set(ran)
    assert len(leapt) <= 4 * len(parsed.hour) * len(parsed.minute)
    ends = {moment.astimezone(local).replace(tzinfo=None) for moment in shifts(local)}
    for wall in leapt:  # in a gap: run when it is over
        end = min(end for end in ends if end > wall)
        assert end - wall <= datetime.timedelta(hours=1)
        assert end in ran
    within = {wall for wall in ran if BEGIN.date() + DAY < wall.date() < last}
    assert within - ends <= named
    assert all(moment.fold == 0 for moment in found), "at the first coming of a time that comes twice"


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("line", HOURLY)
def test_every_hour_follows_real_time_around_each_change(zone, line):
    """Against a walk over every minute that passes, from the day before the change to the day after."""
    schedule, local = from_text(line, zone), ZoneInfo(zone)
    parsed = schedule._parsed
    for shift in shifts(local):
        minutes = [shift + n * MINUTE for n in range(-26 * 60, 26 * 60)]
        expected = [
            moment
            for moment in minutes
            if moment.astimezone(local).minute in parsed.minute
            and moment.astimezone(local).month in parsed.month_of_year
        ]
        assert walk(schedule, minutes[0], minutes[-1]) == expected


@pytest.mark.parametrize("line", [*HOURLY, "0 0 * * *", "30 23 * * *"])
def test_a_clock_that_goes_back_over_midnight(line):
    """Newfoundland did, until 2011: from 00:01 to 23:01 of the day before."""
    schedule, local = from_text(line, "America/St_Johns"), ZoneInfo("America/St_Johns")
    shift = datetime.datetime(2010, 11, 7, 2, 31, tzinfo=UTC)
    assert (shift - MINUTE).astimezone(local).day == 7
    assert shift.astimezone(local).day == 6
    parsed = schedule._parsed
    minutes = [shift + n * MINUTE for n in range(-5 * 60, 5 * 60)]
    expected = [
        moment
        for moment in minutes
        if (there := moment.astimezone(local)).minute in parsed.minute
        and there.hour in parsed.hour
        and there.month in parsed.month_of_year
        and (len(parsed.hour) == 24 or there.fold == 0)
    ]
    assert walk(schedule, minutes[0], minutes[-1]) == expected


@given(
    zone=st.sampled_from(ZONES),
    line=st.sampled_from(FIXED + HOURLY),
    which=st.integers(0, 3),
    seconds=st.integers(-30 * 3600, 30 * 3600),
    step=st.integers(1, 7200),
)
def test_the_latest_instant_never_goes_back(zone, line, which, seconds, step):
    schedule = from_text(line, zone)
    moment = shifts_of(zone)[which] + datetime.timedelta(seconds=seconds)
    earlier, later = schedule.latest(moment), schedule.latest(moment + datetime.timedelta(seconds=step))
    assert earlier <= moment
    assert earlier <= later
    assert schedule.latest(earlier) == earlier


_shifts: dict = {}


def shifts_of(zone):
    if zone not in _shifts:
        _shifts[zone] = shifts(ZoneInfo(zone))
    return _shifts[zone]


@given(seconds=st.integers(1, 10**6), at=st.datetimes(datetime.datetime(1990, 1, 1), datetime.datetime(2090, 1, 1)))
def test_an_interval_counts_from_1970(seconds, at):
    at = at.replace(tzinfo=UTC)
    instant = Every(seconds).latest(at)
    assert instant.timestamp() % seconds == 0
    assert instant.microsecond == 0
    assert datetime.timedelta(0) <= at - instant < datetime.timedelta(seconds=seconds)


def test_days_must_fit_all_three_fields_as_with_celery():
    schedule = Crontab("0", "9", "13", "*", "fri", "UTC")
    found = schedule.latest(END)
    assert (found.day, found.isoweekday()) == (13, 5)


def test_a_rare_day_is_found():
    assert from_text("0 9 29 2 mon", "UTC").latest(END).date() == datetime.date(2016, 2, 29)
