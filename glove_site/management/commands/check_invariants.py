"""`manage.py check_invariants`: the promises, verified in the data."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from inbox import invariants


class Command(BaseCommand):
    help = "Verify in the data what the system promises. Exits with 1 and a list where a promise does not hold. Reads whole tables."

    def handle(self, **options: Any) -> None:
        checks = invariants.checks()
        broken = invariants.breaches(checks)
        for breach in broken:
            self.stdout.write(f"{breach.check.name}: not so: {breach.check.promise}")
            for row in breach.rows:
                self.stdout.write(f"    {row}")
        if broken:
            raise CommandError(f"{len(broken)} of {len(checks)} promises do not hold.")
        self.stdout.write(f"All {len(checks)} promises hold.")
