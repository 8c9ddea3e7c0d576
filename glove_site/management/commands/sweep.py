"""`manage.py sweep`: one pass of the sweep, by hand."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents import sweep as agents_sweep
from inbox import sweep

DRAIN_S = 600


class Command(BaseCommand):
    help = "Run one pass of the sweep and print what each job found. Turns whose doorbell cannot be rung are run here."

    def handle(self, **options: Any) -> None:
        counts = sweep.run_pass()
        if not counts:
            self.stdout.write("Another pass is under way; nothing was done here.")
            return
        for name, moved in counts.items():
            self.stdout.write(f"{name}: {'failed' if moved == sweep.FAILED else moved}")
        # Threads of this process are running turns; leaving now would cut them off.
        agents_sweep.slots.drain(DRAIN_S)
        if sweep.FAILED in counts.values():
            raise CommandError("A job failed; the log says why.")
