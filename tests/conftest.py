"""What every test stands on. The parts, each in a module of its own, are plugins of pytest."""

import os

import pytest
from django.conf import settings
from hypothesis import settings as hypothesis_settings

pytest_plugins = (
    "tests.network",
    "tests.services",
    "tests.database",
    "tests.browser",
    "tests.doorbell",
    "tests.processes",
)

# A slow moment of the machine is no failure; in CI the same examples are drawn every time.
hypothesis_settings.register_profile("suite", deadline=None, derandomize=os.environ.get("CI") == "true")
hypothesis_settings.load_profile("suite")


@pytest.fixture(autouse=True, scope="session")
def static_files_are_looked_up_when_asked_for():
    """As it starts, the site lists all its static files, once. Here every client of a test is a start."""
    settings.WHITENOISE_AUTOREFRESH = True


@pytest.fixture(autouse=True, scope="session")
def passwords_are_hashed_in_no_time():
    """The real hash takes most of a second each, on purpose."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
