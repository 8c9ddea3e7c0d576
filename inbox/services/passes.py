"""One pass of the sweep at a time: the claim is one row of `Sweep`, taken by one conditional UPDATE."""

from django.conf import settings
from django.db.models import Exists

from inbox.clock import clock
from inbox.models import Sweep

CLAIM = "claim"  # held while a pass runs
PASS = "pass"  # when the last pass began
LONG_AGO_S = 10 * 365 * 24 * 3600


def claim(after_s: float) -> bool:
    """Take the claim, if the last pass began at least `after_s` seconds ago and nobody holds it."""
    _ensure_rows()
    last = Sweep.objects.filter(name=PASS, began_at__lte=clock(-after_s))
    if not last.exists():
        return False
    free = Sweep.objects.filter(Exists(last), name=CLAIM, began_at__lte=clock(-settings.SWEEP_EVERY_S))
    claimed = free.update(began_at=clock())
    if claimed:
        Sweep.objects.filter(name=PASS).update(began_at=clock())
    return bool(claimed)


def release() -> None:
    """Give the claim back, so that the next pass need not wait until it lapses."""
    Sweep.objects.filter(name=CLAIM).update(began_at=clock(-LONG_AGO_S))


def _ensure_rows() -> None:
    if Sweep.objects.filter(name__in=[CLAIM, PASS]).count() < 2:
        rows = [Sweep(name=name, began_at=clock(-LONG_AGO_S)) for name in (CLAIM, PASS)]
        Sweep.objects.bulk_create(rows, ignore_conflicts=True)
