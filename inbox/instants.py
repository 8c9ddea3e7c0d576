"""When a schedule is due: the instants of an interval and of a crontab, each a moment that has a run of its own.

An interval's instants are the multiples of its length since 1970, whatever beat's own rhythm is. A crontab's fields mean
what they mean to Celery: a day fits when its day of month, its month and its day of week all do. Where clocks change,
- a crontab with certain hours runs once for each local time that it names: at its first coming where the clock goes back,
  and when the gap is over where the clock leaps past it;
- one for every hour follows real time: each hour that passes is an hour of its own.
"""

import datetime
from dataclasses import dataclass
from functools import cached_property, lru_cache
from zoneinfo import ZoneInfo

from celery.schedules import ParseException, crontab

from inbox.errors import BadDeclaration

UTC = datetime.UTC
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)
MINUTE = datetime.timedelta(minutes=1)
DAY = datetime.timedelta(days=1)
SEARCH_DAYS = 41 * 366  # from one 29 February on a given day of the week to the next, over 2100, are 40 years


@dataclass(frozen=True)
class Every:
    """Every so many seconds."""

    seconds: int

    def __post_init__(self) -> None:
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, int) or not 1 <= self.seconds <= 366 * 86400:
            raise BadDeclaration(f"every={self.seconds!r}: write whole seconds, from 1 to a year.")

    def __str__(self) -> str:
        return f"every {self.seconds} s"

    def latest(self, now: datetime.datetime) -> datetime.datetime:
        """The last instant up to this moment."""
        length = datetime.timedelta(seconds=self.seconds)
        return now.astimezone(UTC) - (now - EPOCH) % length


@dataclass(frozen=True)
class Crontab:
    """Five fields in Celery's notation, and the time zone in which they are read."""

    minute: str
    hour: str
    day_of_month: str
    month_of_year: str
    day_of_week: str
    zone: str

    def __post_init__(self) -> None:
        try:
            ZoneInfo(self.zone)
        except (KeyError, ValueError, OSError):
            raise BadDeclaration(f"{self.zone!r} is not a time zone. Write a name such as Europe/Berlin.") from None
        _ = self._parsed

    def __str__(self) -> str:
        fields = (self.minute, self.hour, self.day_of_month, self.month_of_year, self.day_of_week)
        return f"crontab {' '.join(fields)} in {self.zone}"

    def latest(self, now: datetime.datetime) -> datetime.datetime | None:
        """The last instant up to this moment; None where there is none within 41 years."""
        best = None
        day = now.astimezone(ZoneInfo(self.zone)).date() + DAY  # a clock may go back over midnight
        for _ in range(SEARCH_DAYS):
            found = [instant for instant in _instants(self, day) if instant <= now] if self._fits(day) else []
            if best is not None:  # and then the end of the day before comes after the beginning of this one
                return max([best, *found])
            best = max(found, default=None)
            day -= DAY
        return best

    @cached_property
    def _parsed(self) -> crontab:
        try:
            return crontab(
                minute=self.minute,
                hour=self.hour,
                day_of_month=self.day_of_month,
                month_of_year=self.month_of_year,
                day_of_week=self.day_of_week,
            )
        except (ValueError, ParseException, TypeError) as error:
            raise BadDeclaration(f"{self}: {error}") from None

    def _fits(self, day: datetime.date) -> bool:
        cron = self._parsed
        return (
            day.day in cron.day_of_month
            and day.month in cron.month_of_year
            and day.isoweekday() % 7 in cron.day_of_week
        )


@lru_cache(maxsize=64)
def _instants(cron: Crontab, day: datetime.date) -> tuple[datetime.datetime, ...]:
    """Those of a local day. Kept, since every tick and every sweep looks at the same days."""
    parsed, zone = cron._parsed, ZoneInfo(cron.zone)
    walls = [
        datetime.datetime.combine(day, datetime.time(hour, minute)) for hour in parsed.hour for minute in parsed.minute
    ]
    if len(parsed.hour) == 24:
        return tuple(moment for wall in walls for moment in _real_times(wall, zone))
    return tuple(_first_time(wall, zone) for wall in walls)


def _real_times(wall: datetime.datetime, zone: ZoneInfo) -> set[datetime.datetime]:
    """The moments at which clocks there show this: one, two where they go back, none where they leap past it."""
    moments = {wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return {moment for moment in moments if moment.astimezone(zone).replace(tzinfo=None) == wall}


def _first_time(wall: datetime.datetime, zone: ZoneInfo) -> datetime.datetime:
    """The first moment at which clocks there show this, or the end of the gap in which they leap past it."""
    if real := _real_times(wall, zone):
        return min(real)
    moment = wall.replace(tzinfo=zone).astimezone(UTC)  # in the time from before the leap: some way past it
    before = wall.replace(tzinfo=zone).utcoffset()
    while (moment - MINUTE).astimezone(zone).utcoffset() != before:
        moment -= MINUTE
    return moment


def _field(value: object) -> str:
    """A field of Celery's crontab as text: it also takes numbers and collections of them."""
    if isinstance(value, set | frozenset | list | tuple):
        return ",".join(str(one) for one in sorted(value, key=str))
    return str(value).replace(" ", "")


def from_celery(cron: crontab, zone: str) -> Crontab:
    """Celery's crontab as ours, read in this zone unless it has one of its own."""
    own = vars(cron).get("tz")
    return Crontab(
        minute=_field(cron._orig_minute),
        hour=_field(cron._orig_hour),
        day_of_month=_field(cron._orig_day_of_month),
        month_of_year=_field(cron._orig_month_of_year),
        day_of_week=_field(cron._orig_day_of_week),
        zone=str(own) if own is not None else zone,
    )


def from_text(line: str, zone: str) -> Crontab:
    """`minute hour day-of-month month day-of-week`, as in a crontab file, read in this zone."""
    fields = line.split()
    if len(fields) != 5:
        raise BadDeclaration(f"crontab={line!r}: write five fields: minute, hour, day of month, month, day of week.")
    minute, hour, day_of_month, month_of_year, day_of_week = fields
    return Crontab(minute, hour, day_of_month, month_of_year, day_of_week, zone)
