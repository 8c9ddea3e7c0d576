"""The start of a process, whichever it is: what the operator has to mend is one sentence, and the exit code 1."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from django.core.exceptions import ImproperlyConfigured

from inbox.errors import InboxError


@contextmanager
def in_one_sentence() -> Iterator[None]:
    """Leave with a sentence for a value of the environment that cannot be used, and for a declaration that is wrong."""
    try:
        yield
    except ImproperlyConfigured as error:
        sys.exit(f"Wrongly configured: {error}")
    except InboxError as error:
        place = _declared_at(error)
        if place is None:
            raise
        sys.exit(f"Wrongly declared in {place}: {error}")


def _declared_at(error: Exception) -> str | None:
    """The line that ran last while a glove.py was imported; None where none was."""
    imported = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name == "<module>"]
    if not any(frame.filename.endswith("glove.py") for frame in imported):
        return None
    return f"{imported[-1].filename}, line {imported[-1].lineno}"
