"""`manage.py demo`: the coffee shop's people and its first order, and how to play its story."""

import os
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError, ProgrammingError

from demo import people, roasts, stock


class Command(BaseCommand):
    help = (
        "Make the demo's users and data, print their passwords once, and say how to play the story. Only with DEBUG=1."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--reset-passwords", action="store_true", help="Give ada, barista and boss new passwords.")
        parser.add_argument("--port", type=int, default=0, help="The port that `serve` listens on, for the addresses.")

    def handle(self, *, reset_passwords: bool, port: int, **options: Any) -> None:
        if not settings.DEBUG:
            raise CommandError(
                "The demo makes users whose passwords stand on the screen, so it runs only with DEBUG=1. Nothing was changed."
            )
        url = base_url(port)
        try:
            passwords, notes = people.open_shop(reset=reset_passwords)
            story = self._story(url)
        except (OperationalError, ProgrammingError) as error:
            raise CommandError(
                f"The database is not ready ({error}). Run first: {this_python()} manage.py migrate"
            ) from error
        self.stdout.write("\n".join([*self._people(url, passwords), "", *story, *notes]))

    def _people(self, url: str, passwords: dict[str, str]) -> list[str]:
        again = f"{this_python()} manage.py demo --reset-passwords"
        if not passwords:
            return [f"The demo's data is there. Passwords are not kept in the clear; new ones: {again}"]
        lines = ["The coffee shop is open. Passwords are shown only now:", ""]
        for person in people.PEOPLE:
            password = passwords.get(person.name, "(as before)")
            lines.append(f"  {person.name:<8} {password:<15} {person.role:<10} {url}{person.where}")
        return [*lines, "", f"New ones at any time: {again}"]

    def _story(self, url: str) -> list[str]:
        lines = [
            "The story, as ada (README.md tells it in full):",
            f"  “order 3 bags of Huila”  it is out: set its bags in {os.path.relpath(stock.path())} to 12, save, wait, say “yes”",
            "  “refund order 1”         barista answers in the admin",
            "  “when is the next roast of decaf?”  the concierge waits for the roaster, and that for its plan: add the line",
            f"                           decaf,Friday,8 to {os.path.relpath(roasts.path())}, or answer as barista in the admin",
        ]
        for number, command in people.pay_commands(url):
            lines += ["", f"Be the bank, and pay order {number}:", "", command]
        return lines


def base_url(port: int) -> str:
    """Where the site is: PUBLIC_URL, or this machine on the port given here or by PORT."""
    if os.environ.get("PUBLIC_URL"):
        return settings.PUBLIC_URL
    return f"http://127.0.0.1:{port or os.environ.get('PORT', '').strip() or 8000}"


def this_python() -> str:
    """This interpreter, as one would type it here."""
    path = os.path.relpath(sys.executable)
    return sys.executable if path.startswith("..") else path
