"""Chromium for the browser tests: Debian's, not one that Playwright downloads."""

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Playwright

from tests.services import chromium_path

# No sandbox: CI runs as root. The rest keeps the browser from calling home, which a closed network answers with noise.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def pytest_itemcollected(item: pytest.Item) -> None:
    if "playwright" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.browser)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests come last: `playwright` says why. (Last of all hooks, since pytest-django sorts too.)"""
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)


@pytest.fixture(scope="session")
def playwright(playwright: Playwright) -> Iterator[Playwright]:
    """Playwright, whose event loop runs in the tests' own thread from now on.

    Django sees the loop and takes every query for one of async code, so its guard is off from here to the end of the run.
    Tests without a browser run before, with the guard on.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        yield playwright


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict) -> dict:
    return {**browser_type_launch_args, "executable_path": chromium_path(), "args": list(FLAGS)}
