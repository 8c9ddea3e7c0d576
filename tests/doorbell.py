"""The doorbell in the tests' process: bells hang in its memory, where no worker takes them, as if one were about to."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _bells_are_taken() -> Iterator[None]:
    from agents import bell

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bell, "listened", True)
        yield
