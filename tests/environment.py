"""The environment that the tests see: this project's defaults, whatever the developer's shell has set.

A pytest plugin of its own (`-p tests.environment`), since Django reads its settings before any conftest is imported.
It is imported by child processes of the tests too, so it sets variables and does nothing else.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# A key in the shell must not make the suite call a real model, nor REDIS_URL send its doorbells to real workers.
STRAY = (
    "ALLOWED_HOSTS",
    "ANTHROPIC_",
    "DEFAULT_FROM_EMAIL",
    "EMAIL_",
    "GLOVE_",
    "PUBLIC_URL",
    "REDIS_URL",
    "TIME_ZONE",
)
KEPT = ("GLOVE_REQUIRE_SERVICES", "GLOVE_TEST_")


def clean() -> None:
    """Drop what would lead the suite astray; set what it counts on."""
    for name in list(os.environ):
        if name.startswith(STRAY) and not name.startswith(KEPT):
            del os.environ[name]
    suffix = os.environ.get("GLOVE_TEST_DB_SUFFIX", "")
    os.environ["GLOVE_VAR"] = str(ROOT / "var" / "tests" / (suffix or "main"))
    os.environ["SECRET_KEY"] = "only-for-tests-" + "x" * 50
    os.environ["DEBUG"] = "1"
    # Compiled code is kept, for the sake of the next of the many processes that the suite starts.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(ROOT / "var" / "tests" / "hypothesis")


clean()
