"""The database's clock. Three functions that both databases offer, so that SQL is written once:

`glove_clock(s)`  the wall clock now, plus `s` seconds. Volatile: for fences, claims and stamps.
`glove_now(s)`    the time at which this statement began, plus `s` seconds. Stable: a scan can use an index with it.
`glove_day()`     today's date in UTC.

On Postgres a migration makes them of `clock_timestamp()` and `statement_timestamp()`; on SQLite each connection
registers them, in the text form in which Django stores times there.
"""

import datetime
from typing import Any

from django.db.models import DateField, DateTimeField, Func, Value

POSTGRES_SQL = """
CREATE OR REPLACE FUNCTION glove_clock(s double precision) RETURNS timestamptz LANGUAGE sql VOLATILE
    AS 'SELECT clock_timestamp() + make_interval(secs => s)';
CREATE OR REPLACE FUNCTION glove_now(s double precision) RETURNS timestamptz LANGUAGE sql STABLE
    AS 'SELECT statement_timestamp() + make_interval(secs => s)';
CREATE OR REPLACE FUNCTION glove_day() RETURNS date LANGUAGE sql STABLE
    AS $$SELECT (statement_timestamp() AT TIME ZONE 'UTC')::date$$;
"""


def _sqlite_clock(seconds: float) -> str:
    moment = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) + datetime.timedelta(seconds=seconds)
    return str(moment)


def register_on_sqlite(connection: Any, **kwargs: Any) -> None:
    """Receiver of `connection_created`."""
    if connection.vendor == "sqlite":
        for name in ("glove_clock", "glove_now"):
            connection.connection.create_function(name, 1, _sqlite_clock)
        connection.connection.create_function("glove_day", 0, lambda: _sqlite_clock(0)[:10])


def clock(seconds: float = 0) -> Func:
    """The database's time, plus seconds, for use in an update."""
    return Func(Value(float(seconds)), function="glove_clock", output_field=DateTimeField())


def today() -> Func:
    """The database's date, in UTC."""
    return Func(function="glove_day", output_field=DateField())


def now(seconds: float = 0) -> Func:
    """The statement's time, plus seconds, for use in a filter."""
    return Func(Value(float(seconds)), function="glove_now", output_field=DateTimeField())
