"""`manage.py demo` is the demo app's own command. Where that app is switched off, this one says so."""

from typing import Any

from django.apps import apps
from django.core.management import load_command_class
from django.core.management.base import BaseCommand, CommandError


class SwitchedOff(BaseCommand):
    help = "The demo's data. The demo is switched off here."

    def handle(self, **options: Any) -> None:
        raise CommandError(
            "The demo is switched off: it needs DEBUG=1, and GLOVE_DEMO not set to 0. Nothing was changed."
        )


# By name, not by import: the site stands without the demo. Of two commands with one name Django takes the site's.
Command: type[BaseCommand] = type(load_command_class("demo", "demo")) if apps.is_installed("demo") else SwitchedOff
