"""The database's clock: two functions that say the same on both databases, and differ where they must."""

import datetime
import time

import pytest
from django.db import connection, transaction
from django.utils import timezone

from inbox.clock import clock, now
from inbox.models import Item
from tests.factories import ItemFactory, fresh

pytestmark = pytest.mark.django_db


def value_of(expression):
    """What it is in a statement of its own."""
    return Item.objects.annotate(at=expression).values_list("at", flat=True).get()


@pytest.fixture(autouse=True)
def item():
    return ItemFactory()


@pytest.mark.parametrize("function", [clock, now])
@pytest.mark.parametrize("seconds", [0, 90, -0.5, 86400 * 400])
def test_they_are_the_present_plus_seconds(function, seconds):
    expected = timezone.now() + datetime.timedelta(seconds=seconds)
    assert abs(value_of(function(seconds)) - expected) < datetime.timedelta(seconds=5)


@pytest.mark.parametrize("function", [clock, now])
def test_time_goes_on_within_a_transaction(function):
    """A lease that is taken after a long wait for a lock begins then, not when the transaction began."""
    with transaction.atomic():
        before = value_of(function())
        time.sleep(0.02)
        assert value_of(function()) > before


@pytest.mark.postgres
def test_only_the_statements_time_can_use_an_index():
    with connection.cursor() as cursor:
        cursor.execute("SELECT proname, provolatile FROM pg_proc WHERE proname IN ('glove_clock', 'glove_now')")
        assert dict(cursor.fetchall()) == {"glove_clock": "v", "glove_now": "s"}


def test_stamps_and_times_of_django_compare(item):
    """On SQLite both are text: they must be of one form, with microseconds and without."""
    whole = datetime.datetime(2026, 12, 1, 12, 0, 0, tzinfo=datetime.UTC)
    for moment, past in ((whole, True), (whole.replace(microsecond=1), True), (whole.replace(year=2999), False)):
        Item.objects.filter(pk=item.pk).update(due_at=moment)
        assert Item.objects.filter(due_at__lt=now(86400)).exists() == past
        assert fresh(item).due_at == moment
    Item.objects.filter(pk=item.pk).update(due_at=clock(-1))
    assert Item.objects.filter(
        due_at__lt=timezone.now(), due_at__gt=timezone.now() - datetime.timedelta(seconds=60)
    ).exists()
