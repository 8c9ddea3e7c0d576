"""`manage.py setup_roles`: the groups viewer, resolver, auditor and operator."""

from typing import Any

from django.core.management.base import BaseCommand

from glove_site.roles import set_up_roles


class Command(BaseCommand):
    help = "Make the groups viewer, resolver, auditor and operator hold their permissions. Safe to run again."

    def handle(self, *args: Any, **options: Any) -> None:
        for name, added in set_up_roles().items():
            self.stdout.write(f"{name}: {f'{len(added)} permissions added' if added else 'complete'}")
        self.stdout.write("Put people into these groups, and tick “Staff status” for those who use the admin.")
