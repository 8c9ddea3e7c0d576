#!/usr/bin/env python
"""Django's command line for this project."""

import os
import sys


def main() -> None:
    """Run the command. What the operator has to mend is one sentence; `--traceback` shows the rest."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "glove_site.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import OperationalError

    try:
        execute_from_command_line(sys.argv)
    except (ImproperlyConfigured, OperationalError) as error:
        if "--traceback" in sys.argv:
            raise
        if isinstance(error, OperationalError):
            sys.exit(
                f"The database refused, or does not answer: {error}. Check DATABASE_URL, and run: manage.py migrate"
            )
        sys.exit(f"Wrongly configured: {error}")


if __name__ == "__main__":
    main()
