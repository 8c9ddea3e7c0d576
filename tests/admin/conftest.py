"""What the tests of the desk share."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from tests.admin import world


@pytest.fixture
def shop(db: None) -> world.Company:
    """The small company of `world`."""
    return world.company()


@pytest.fixture
def sign_in() -> Callable[[Any], Client]:
    """A browser of this person's."""

    def signed_in(user: Any, **options: Any) -> Client:
        client = Client(**options)
        client.force_login(user)
        return client

    return signed_in
