"""One turn that is long in a transaction does not cost the other turns of its process their leases."""

import time

import pytest

from agents.services import hot
from tests.database import uncommitted
from tests.factories import TurnFactory, backdate, fresh

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


def test_a_locked_turn_does_not_hold_up_the_renewal_of_the_others():
    busy, mine = TurnFactory(running=True), TurnFactory(running=True)
    for turn in (busy, mine):
        backdate(turn, 5, "lease_until")
    with uncommitted(lambda: hot.fence(busy.pk, busy.token, hot.RENEW, [30])):
        began = time.monotonic()
        hot.renew([busy.token, mine.token], 30)
        took = time.monotonic() - began
    assert took < 2
    assert fresh(mine).lease_until > fresh(mine).created_at
    assert fresh(busy).lease_until > fresh(busy).created_at  # by its own transaction
