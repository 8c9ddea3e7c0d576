"""`manage.py purge`: forget what nobody will ask for again."""

import re
from argparse import ArgumentTypeError
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from agents.services import purging as conversations
from inbox.services import purging as inbox
from mesh.services import purging as mesh

UNITS = {"h": "hours", "d": "days", "w": "weeks"}


class Command(BaseCommand):
    help = (
        "Delete what is older: consumed items, closed conversations, messages of the mesh, runs of resolvers; idempotency keys,"
        " webhook ids and early answers after a day at the earliest. What is open, pending or unread stays."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--older-than", required=True, type=age, metavar="AGE", help="An age: 30d, 12h, 8w.")

    def handle(self, *, older_than: timedelta, **options: Any) -> None:
        # Items last: without them their mail would stand in a transcript, or on a receipt, without its row.
        for purge in (conversations.purge, mesh.purge, inbox.purge):
            for name, deleted in purge(older_than).items():
                self.stdout.write(f"{name}: {deleted}")


def age(text: str) -> timedelta:
    """`30d`, `12h` or `8w` as a length of time."""
    match = re.fullmatch(r"([1-9][0-9]{0,4})([hdw])", text)
    if not match:
        raise ArgumentTypeError(f"{text!r} is not an age: a whole number and h, d or w, as in 30d.")
    return timedelta(**{UNITS[match[2]]: int(match[1])})
