"""The tests' database: one per run and worker, real in both kinds, emptied quickly after a test that committed.

Tests run on the database that DATABASE_URL names: SQLite in a file (threads and child processes must see it) by default,
PostgreSQL where it says so. GLOVE_TEST_DB_SUFFIX goes into the name, so that two people can run tests on one machine.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.db import connection, connections, transaction
from django.db.models.signals import post_migrate
from django.test import TransactionTestCase
from pytest_django.plugin import blocking_manager_key

from tests.services import POSTGRES, SERVICES, found

RACE_S = 60
BIG_BYTES = 16 * 2**20


# --- Which tests run where
def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--database-only", action="store_true", help="only tests that touch the database, without a browser"
    )
    parser.addoption("--then-postgres", action="store_true", help="leave tests marked postgres to another run")
    parser.addoption(
        "--waiting", choices=("only", "no"), help="only tests that wait for processes or a browser, or no such"
    )


def touches_database(item: pytest.Item) -> bool:
    if item.get_closest_marker("django_db") or {"db", "transactional_db"} & set(getattr(item, "fixturenames", ())):
        return True
    return issubclass(getattr(item, "cls", None) or object, TransactionTestCase)


def waits(item: pytest.Item) -> bool:
    """Whether the test leaves the processor to others for most of its time: to processes of its own, to a browser."""
    return "start" in getattr(item, "fixturenames", ()) or item.get_closest_marker("browser") is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    dropped = {item for item in items if _belongs_elsewhere(config, item)}
    if dropped:
        config.hook.pytest_deselected(items=list(dropped))
        items[:] = [item for item in items if item not in dropped]
    for item in items:
        if item.get_closest_marker("postgres") and connection.vendor != "postgresql":
            item.add_marker(pytest.mark.skip(reason=_why_not_on_postgres()))


def _belongs_elsewhere(config: pytest.Config, item: pytest.Item) -> bool:
    """Whether another run of the suite, on another database, has this test."""
    marked = {mark.name for mark in item.iter_markers()}
    if connection.vendor != "sqlite" and "sqlite" in marked:
        return True
    if config.getoption("--then-postgres") and "postgres" in marked:
        return True
    if (waiting := config.getoption("--waiting")) and waits(item) != (waiting == "only"):
        return True
    # What a browser shows, and who may open which page, does not depend on the database below.
    once = bool({"browser", "one_database"} & marked) and "postgres" not in marked
    return config.getoption("--database-only") and (once or not touches_database(item))


def _why_not_on_postgres() -> str:
    if found("postgres"):
        return f"runs on PostgreSQL: DATABASE_URL={POSTGRES}"
    return next(service.reason for service in SERVICES if service.marker == "postgres")


@pytest.fixture(scope="session")
def db_vendor() -> str:
    """`sqlite` or `postgresql`."""
    return connection.vendor


# --- Making and dropping it
@pytest.fixture(scope="session")
def django_db_modify_db_settings(request: pytest.FixtureRequest, django_db_blocker: Any) -> None:
    # The addresses that the demo declares on the mesh would be rows of every test; who wants them calls joining.sync.
    post_migrate.disconnect(sender=apps.get_app_config("mesh"), dispatch_uid="mesh.sync")
    worker = getattr(request.config, "workerinput", {}).get("workerid", "")
    name = "_".join(filter(None, ["test_glove", os.environ.get("GLOVE_TEST_DB_SUFFIX"), worker]))
    test_settings = settings.DATABASES["default"].setdefault("TEST", {})
    if connection.vendor == "sqlite":
        path = Path(settings.VAR_DIR, f"{name}.sqlite3")
        for leftover in (f"{path}-wal", f"{path}-shm"):
            Path(leftover).unlink(missing_ok=True)
        test_settings["NAME"] = str(path)
    else:
        test_settings["NAME"] = name
        with django_db_blocker.unblock():
            _end_sessions(name)


def _end_sessions(name: str) -> None:
    """End what still holds the test database open: children of a run that was killed, threads that a test left."""
    with connection._nodb_cursor() as cursor:  # the server's own database: this one may not be there yet
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
            [name],
        )


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    with django_db_blocker.unblock():
        baseline = Baseline.read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda case: baseline.restore())
        yield
    with django_db_blocker.unblock():
        connections.close_all()
        if connection.vendor == "postgresql":
            connections["default"].close_pool()
            _end_sessions(connection.settings_dict["NAME"])


# --- Emptying it after a test that committed
@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """A test that wrote a million rows leaves a million dead ones, which every later scan of the table would wade through."""
    yield
    if connection.vendor == "postgresql" and item.get_closest_marker("slow") and touches_database(item):
        with item.config.stash[blocking_manager_key].unblock(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
                " AND pg_relation_size(oid) > %s",
                [BIG_BYTES],
            )
            for (table,) in cursor.fetchall():
                cursor.execute(f"VACUUM {connection.ops.quote_name(table)}")


@dataclass
class Baseline:
    """The rows that migrations made, and the way back to them.

    Django's own way empties every table and then makes content types and permissions anew, with other ids: about 150 ms
    per test on PostgreSQL where this takes 10, and what a migration put in is gone for the rest of the run.
    """

    empty: list[str] = field(default_factory=list)
    seeded: dict[str, list[tuple]] = field(default_factory=dict)

    @classmethod
    def read(cls) -> "Baseline":
        found = cls()
        with connection.cursor() as cursor:
            for table in sorted(connection.introspection.django_table_names(only_existing=True, include_views=False)):
                if rows := _rows(cursor, table):
                    found.seeded[table] = rows
                else:
                    found.empty.append(table)
        return found

    def restore(self) -> None:
        with connection.constraint_checks_disabled(), transaction.atomic(), connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                # No foreign keys and no guards while rows go in any order. Needs a superuser, which tests have.
                cursor.execute("SET LOCAL session_replication_role = replica")
            for table in self._filled(cursor):
                cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")
            for table, rows in self.seeded.items():
                if _rows(cursor, table) != rows:
                    cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")
                    places = ", ".join(["%s"] * len(rows[0]))
                    cursor.executemany(f"INSERT INTO {connection.ops.quote_name(table)} VALUES ({places})", rows)

    def _filled(self, cursor: Any) -> list[str]:
        quote = connection.ops.quote_name
        asked = [f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {quote(table)})" for table in self.empty]
        cursor.execute(" UNION ALL ".join(asked))
        return [table for (table,) in cursor.fetchall()]


def _rows(cursor: Any, table: str) -> list[tuple]:
    cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)} ORDER BY 1")
    return cursor.fetchall()


# --- Filling it
@contextmanager
def filling(*tables: str) -> Iterator[Any]:
    """A cursor to put a million rows into these tables of PostgreSQL with, in the test's transaction: without guards, foreign keys
    and indexes, which are made anew at the end. Otherwise it takes three times as long."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(
            "SELECT indexname, indexdef FROM pg_indexes"
            " WHERE tablename = ANY (%s) AND indexname NOT IN (SELECT conname FROM pg_constraint)",
            [list(tables)],
        )
        indexes = cursor.fetchall()
        for name, _ in indexes:
            cursor.execute(f"DROP INDEX {connection.ops.quote_name(name)}")
        yield cursor
        for _, definition in indexes:
            cursor.execute(definition)
        cursor.execute("SET LOCAL session_replication_role = origin")
        _check_foreign_keys(cursor, tables)
        cursor.execute(f"ANALYZE {', '.join(tables)}")


def _check_foreign_keys(cursor: Any, tables: Sequence[str]) -> None:
    cursor.execute(
        "SELECT own.relname, mine.attname, other.relname, theirs.attname FROM pg_constraint c"
        " JOIN pg_class own ON own.oid = c.conrelid JOIN pg_class other ON other.oid = c.confrelid"
        " JOIN pg_attribute mine ON mine.attrelid = own.oid AND mine.attnum = c.conkey[1]"
        " JOIN pg_attribute theirs ON theirs.attrelid = other.oid AND theirs.attnum = c.confkey[1]"
        " WHERE c.contype = 'f' AND own.relname = ANY (%s)",
        [list(tables)],
    )
    for table, column, other, key in cursor.fetchall():
        cursor.execute(
            f"SELECT r.{column} FROM {table} r WHERE r.{column} IS NOT NULL"
            f" AND NOT EXISTS (SELECT 1 FROM {other} o WHERE o.{key} = r.{column}) LIMIT 1"
        )
        assert (found := cursor.fetchone()) is None, f"{table}.{column} names {found}, which {other} has not"


# --- Other processes and other threads
@contextmanager
def uncommitted(act: Callable[[], Any]) -> Iterator[None]:
    """Done by another thread, in a transaction that is open, with its locks, to the end of the block, and then committed."""
    done, release = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                act()
                done.set()
                release.wait(RACE_S)
        finally:
            connections.close_all()

    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    try:
        assert done.wait(RACE_S), "it was not done"
        yield
    finally:
        release.set()
        holder.join(RACE_S)


@pytest.fixture
def database_url(transactional_db: None) -> str:
    """DATABASE_URL of the tests' database, for a child process."""
    name = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        return f"sqlite:///{name}"
    return settings.DATABASE_URL.rpartition("/")[0] + f"/{name}"


@pytest.fixture
def child_environment(database_url: str) -> dict[str, str]:
    """The environment for a child process that works on the tests' database."""
    return {**os.environ, "DATABASE_URL": database_url}


@dataclass
class Finish:
    """How a race ended: what the racers returned and what they raised, each in the order of the racers."""

    results: list[Any]
    errors: list[BaseException]


@pytest.fixture
def race(transactional_db: None) -> Callable[[int, Callable[[int], Any]], Finish]:
    """`race(n, act)`: n threads, each with a connection of its own, call `act(index)` at the same moment."""
    return run_race


def run_race(racers: int, act: Callable[[int], Any]) -> Finish:
    results: dict[int, Any] = {}
    errors: dict[int, BaseException] = {}
    barrier = threading.Barrier(racers)

    def racer(index: int) -> None:
        try:
            connection.ensure_connection()
            barrier.wait(RACE_S)
            results[index] = act(index)
        except BaseException as error:
            errors[index] = error
        finally:
            connections.close_all()

    threads = [
        threading.Thread(target=racer, args=(index,), daemon=True, name=f"racer-{index}") for index in range(racers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(RACE_S)
        if thread.is_alive():
            pytest.fail(f"{thread.name} still runs after {RACE_S} s", pytrace=False)
    return Finish([results[i] for i in sorted(results)], [errors[i] for i in sorted(errors)])
