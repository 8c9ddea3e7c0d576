"""Plain SQL that every turn runs: on Postgres each statement is prepared once per session, which spares the server most of its work
on it. The same text for both databases; parameters are `%s`.

Django's own cursors write the parameters into the text, and nothing can be prepared.
"""

from typing import Any

from django.db import connection


def one(sql: str, values: Any = ()) -> Any:
    """The first row, or None."""
    with _cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchone()


def rows(sql: str, values: Any = ()) -> list[Any]:
    """All rows."""
    with _cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall()


def run(sql: str, values: Any = ()) -> int:
    """How many rows it touched."""
    with _cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.rowcount


def _cursor() -> Any:
    if connection.vendor != "postgresql" or connection.queries_logged:  # the log shows a statement with its parameters
        return connection.cursor()
    from django.db.backends.postgresql import base

    connection.ensure_connection()
    cursor: Any = base.ServerBindingCursor  # type: ignore[attr-defined]
    return connection._prepare_cursor(cursor(connection.connection))  # type: ignore[attr-defined]
