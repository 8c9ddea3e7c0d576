"""The sweep and a clock that is set back: it goes on at once, and not when the old time comes again."""

import pytest

from inbox import sweep
from inbox.clock import clock
from inbox.services import passes

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("lane", [sweep.QUICK, sweep.SLOW])
def test_a_pass_that_began_in_the_future_blocks_nothing(lane):
    assert passes.claim(lane, 15)  # and it died
    assert not passes.claim(lane, 15)
    sweep.Sweep.objects.update(began_at=clock(3600))
    assert passes.claim(lane, 15)
    assert 0 <= sweep.age_s(lane) < 5
    assert not passes.claim(lane, 15)
    passes.release(lane)
    assert not passes.claim(lane, 15)
    assert passes.claim(lane, 0)
