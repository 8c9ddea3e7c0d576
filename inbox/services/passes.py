"""The claims of the sweep's passes: one pass over a lane at a time, by one conditional UPDATE of one row.

A lane is a kind of jobs; its name begins the names of its two rows of `Sweep`.
"""

from django.conf import settings
from django.db.models import Exists, Q, QuerySet

from inbox.clock import clock
from inbox.models import Sweep

QUICK, SLOW = "", "slow "
CLAIM = "claim"  # held while a pass runs
PASS = "pass"  # when the last pass began
LONG_AGO_S = 10 * 365 * 24 * 3600


def claim(lane: str, after_s: float) -> bool:
    """Take the pass: no other is under way, and none began less than `after_s` seconds ago."""
    _ensure_rows(lane)
    last = _since(after_s).filter(name=lane + PASS)
    if not last.exists():
        return False
    free = _since(settings.SWEEP_EVERY_S).filter(Exists(last), name=lane + CLAIM)
    claimed = free.update(began_at=clock())
    if claimed:
        Sweep.objects.filter(name=lane + PASS).update(began_at=clock())
    return bool(claimed)


def release(lane: str) -> None:
    """Give the pass back."""
    Sweep.objects.filter(name=lane + CLAIM).update(began_at=clock(-LONG_AGO_S))


def _since(seconds: float) -> QuerySet[Sweep]:
    """What began so long ago; or in the future, when the clock has been set back since: nothing would be swept until then."""
    return Sweep.objects.filter(Q(began_at__lte=clock(-seconds)) | Q(began_at__gt=clock()))


def _ensure_rows(lane: str) -> None:
    names = [lane + CLAIM, lane + PASS]
    if Sweep.objects.filter(name__in=names).count() < len(names):
        rows = [Sweep(name=name, began_at=clock(-LONG_AGO_S)) for name in names]
        Sweep.objects.bulk_create(rows, ignore_conflicts=True)
