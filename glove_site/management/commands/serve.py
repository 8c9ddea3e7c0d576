"""`manage.py serve`: everything in one process."""

import os
import socket
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.urls import Resolver404, resolve

from glove_site.logs import redact


class Command(BaseCommand):
    help = "Migrate, then run web, worker and beat in one process. Stops gracefully on Ctrl-C or SIGTERM."
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--host", default="127.0.0.1", help="The address to listen on (127.0.0.1; 0.0.0.0 for all)."
        )
        parser.add_argument("--port", type=int, default=8000, help="The port to listen on (8000).")

    def handle(self, *, host: str, port: int, **options: Any) -> None:
        from glove_site.serve import CannotServeError, Serving

        if not 0 < port < 65536:
            raise CommandError(f"{port} is not a port: choose one from 1 to 65535.")
        url = reachable(host, port)
        adopt(url, host)
        try:
            code = Serving(host, port, lambda: "\n".join(welcome(url))).run()
        except CannotServeError as error:
            raise CommandError(str(error)) from error
        self.stdout.write("Stopped.")
        self.stdout.flush()
        if code:
            raise SystemExit(code)


def reachable(host: str, port: int) -> str:
    """The address to type into a browser on this machine."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{shown}:{port}"


def adopt(url: str, host: str) -> None:
    """Where the environment does not say otherwise, links lead to the address that is served, and its host is allowed."""
    if not os.environ.get("PUBLIC_URL"):
        settings.PUBLIC_URL = url
    if not os.environ.get("ALLOWED_HOSTS") and host.strip("[]") not in ("0.0.0.0", "::", ""):  # noqa: S104
        settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, f"[{host}]" if ":" in host else host]


def welcome(url: str) -> list[str]:
    """What is where, and who can sign in."""
    lines = ["", "Glove is running. Ctrl-C stops it; what is pending goes on when it is started again.", ""]
    lines += [f"  {name:<10} {url}{path}" for name, path in ADDRESSES if _is_served(path)]
    lines += [
        f"  {'Database':<10} {_database()}",
        f"  {'Doorbell':<10} {redact(settings.REDIS_URL) or 'in this process'}",
    ]
    notes = [note for config in apps.get_app_configs() for note in getattr(config, "serve_notes", list)()]
    if not notes and not get_user_model().objects.exists():
        notes = ["Nobody can sign in yet. Make the first user: python manage.py createsuperuser"]
    lines += ["", *(f"  {note}" for note in notes)] if notes else []
    return [*lines, ""]


ADDRESSES = (("Page", "/"), ("Admin", "/admin/"), ("API docs", "/api/v1/docs"))


def _is_served(path: str) -> bool:
    try:
        resolve(path)
    except Resolver404:
        return False
    return True


def _database() -> str:
    where = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"SQLite, {os.path.relpath(where['NAME'])}"
    return f"PostgreSQL, {where['NAME']} on {where['HOST'] or socket.gethostname()}"
