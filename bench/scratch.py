"""A database of a bench's own: made on the server that DATABASE_URL names, dropped at the end."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

SERVER = "postgres://postgres@127.0.0.1:5432/postgres"


@contextmanager
def database(name: str, server: str = "") -> Iterator[str]:
    """The URL of an empty database `name`. One that is left over from a run that was killed is dropped first."""
    import psycopg
    from psycopg import sql

    server = server or os.environ.get("DATABASE_URL") or SERVER
    with psycopg.connect(server, autocommit=True) as connection:
        drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        connection.execute(drop)
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(drop)


def set_up(url: str, **environment: str) -> None:
    """Make this process work on that database, migrated, with DEBUG off as in production: Django's debug cursor costs more than
    some of what is measured. Before anything of Django's is imported."""
    site = {"DJANGO_SETTINGS_MODULE": "glove_site.settings", "DEBUG": "0", "SECRET_KEY": "only for benches " * 4}
    os.environ.update({"DATABASE_URL": url, **site, **environment})
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0, interactive=False)


def machine() -> str:
    """What it ran on, for the report."""
    return f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
