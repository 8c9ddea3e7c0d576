#!/usr/bin/env python
"""Django's command line for this project."""

import os
import sys
from contextlib import nullcontext


def main() -> None:
    """Run the command. What the operator has to mend is one sentence; `--traceback` shows the rest."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "glove_site.settings")
    from django.core.management import execute_from_command_line
    from django.db import OperationalError

    from glove_site.starting import in_one_sentence

    with nullcontext() if "--traceback" in sys.argv else in_one_sentence():
        try:
            execute_from_command_line(sys.argv)
        except OperationalError as error:
            if "--traceback" in sys.argv:
                raise
            sys.exit(
                f"The database refused, or does not answer: {error}. Check DATABASE_URL, and run: manage.py migrate"
            )


if __name__ == "__main__":
    main()
