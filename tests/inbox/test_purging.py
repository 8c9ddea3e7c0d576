"""`purge` forgets what nobody will ask for again, and nothing else."""

from datetime import timedelta

import pytest
from django.utils import timezone

from inbox.models import (
    EarlyAnswer,
    IdempotencyKey,
    Item,
    Notification,
    ResolveLink,
    ResolverRun,
    WebhookReceipt,
)
from inbox.services import items, purging
from tests.inbox.kit import a_person, a_request

pytestmark = pytest.mark.django_db

AGES = (timedelta(hours=1), timedelta(days=3), timedelta(days=40))


def aged(model, column, **values):
    """One row of each age, youngest first; the numbers of `values` are filled with the age in days."""
    rows = []
    for age in AGES:
        row = model.objects.create(**{name: str(value).format(age.days) for name, value in values.items()})
        model.objects.filter(pk=row.pk).update(**{column: timezone.now() - age})
        rows.append(row.pk)
    return rows


def left(model):
    return list(model.objects.order_by("pk").values_list("pk", flat=True))


@pytest.mark.parametrize(("days", "kept"), [(30, 2), (2, 1), (0, 1)])
def test_keys_receipts_and_early_answers_are_kept_a_day_at_least(days, kept):
    keys = aged(IdempotencyKey, "created_at", caller="a", route="b", key="{}", body_hash="c")
    receipts = aged(WebhookReceipt, "created_at", hook="a", event_id="{}")
    early = aged(EarlyAnswer, "created_at", tag="a", response="b", resolved_by="c", resolved_via="webhook")
    counts = purging.purge(timedelta(days=days))
    assert (left(IdempotencyKey), left(WebhookReceipt), left(EarlyAnswer)) == (
        keys[:kept],
        receipts[:kept],
        early[:kept],
    )
    gone = 3 - kept
    assert counts == {
        "idempotency keys": gone,
        "webhook ids": gone,
        "early answers": gone,
        "resolver runs": 0,
        "consumed items": 0,
    }


def test_the_last_run_of_each_resolver_stays():
    """It says which instant had its run: without it a tick would run that instant again."""
    runs = {}
    for name in ("look", "listen"):
        runs[name] = [
            ResolverRun.objects.create(name=name, instant=timezone.now() - timedelta(days=50 - n)).pk for n in range(3)
        ]
    ResolverRun.objects.update(started_at=timezone.now() - timedelta(days=40))
    assert purging.purge(timedelta(days=30))["resolver runs"] == 4
    assert left(ResolverRun) == sorted([runs["look"][-1], runs["listen"][-1]])


def test_consumed_items_go_with_what_hangs_on_them_and_no_others_do(monkeypatch):
    monkeypatch.setattr(purging, "BATCH", 2)
    old = timezone.now() - timedelta(days=40)
    consumed = [a_request(f"done:{n}") for n in range(5)]
    recent, resolved, pending = a_request("recent"), a_request("resolved"), a_request("pending")
    for item in (*consumed, recent, resolved):
        items.resolve(item.pk, "Yes.", by="ada", via="admin")
    for item, when in [*((item, old) for item in consumed), (recent, timezone.now())]:
        Item.objects.filter(pk=item.pk).update(status="consumed", consumed_at=when)
    Item.objects.update(created_at=old)
    maker = a_person()
    ResolveLink.objects.create(item=consumed[0], token_hash="x", maker=maker, expires_at=old)
    Notification.objects.create(item=consumed[0], notifier="default", not_before=old)
    EarlyAnswer.objects.create(tag="a", response="b", resolved_by="c", resolved_via="webhook", taken_by=consumed[0])
    assert purging.purge(timedelta(days=30))["consumed items"] == 5
    assert left(Item) == sorted([recent.pk, resolved.pk, pending.pk])
    assert not ResolveLink.objects.exists()
    assert not Notification.objects.exists()
    assert EarlyAnswer.objects.get().taken_by is None


def test_nothing_old_is_nothing_to_do():
    a_request()
    assert set(purging.purge(timedelta(days=30)).values()) == {0}
