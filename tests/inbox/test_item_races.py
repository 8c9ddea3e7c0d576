"""Many at one item at once: real transactions, threads and a barrier; exactly one wins."""

import random
import threading
import time

import pytest
from django.contrib.admin.models import LogEntry
from django.db import transaction

from inbox.errors import AlreadyClosed, TooManyOpenItems
from inbox.models import EarlyAnswer, Item
from inbox.services import answers, items, reading
from tests.factories import ItemFactory, MailboxFactory, UserFactory, backdate, fresh

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def nobody_reads(monkeypatch):
    """Who is woken is not at stake here."""
    monkeypatch.setattr("agents.services.waking.wake", lambda mailbox_id: 0)


def test_twenty_people_resolve_one_item(race):
    """Case 19: one answer stands, nineteen are told whose, and there is one entry of the log."""
    item = ItemFactory()
    people = [UserFactory(may=["inbox.resolve_item"]) for _ in range(20)]

    finish = race(
        20, lambda n: answers.resolve_as(people[n], item.pk, f"{('approve', 'deny')[n % 2]} {n}", via="admin")
    )

    (winner,) = finish.results
    assert [type(error) for error in finish.errors] == [AlreadyClosed] * 19
    kept = fresh(item)
    assert (kept.response, kept.resolver_id) == (winner.response, winner.resolver_id)
    by = people[int(kept.response.split()[1])]
    assert kept.resolver_id == by.pk
    assert {error.facts["by"] for error in finish.errors} == {by.username}
    assert len({error.facts["text"] for error in finish.errors} - {kept.response}) == 19
    entry = LogEntry.objects.get()
    assert (entry.user_id, entry.object_id) == (by.pk, str(item.pk))


@pytest.mark.slow
def test_a_deadline_and_a_resolver_at_the_same_instant(race):
    """Case 22, 200 rounds: exactly one of the two wins, and the loser is told how it closed."""
    mailbox = MailboxFactory()
    rounds = [ItemFactory(mailbox=mailbox) for _ in range(200)]
    together = threading.Barrier(2)

    def act(index):
        wins = []
        for item in rounds:
            if not index:
                backdate(item, 1, "due_at")
            together.wait(30)
            time.sleep(random.random() * 0.003)
            try:
                wins.append(items.expire_due() if index else bool(items.resolve(item.pk, "Yes.", by="ada", via="api")))
            except AlreadyClosed as lost:
                wins.append(0 if lost.facts["outcome"] == "expired" else -1)
            together.wait(30)  # or the sweep would take the next round's item
        return wins

    finish = race(2, act)
    assert not finish.errors
    outcomes = [fresh(item).outcome for item in rounds]
    for answered, expired, outcome in zip(*finish.results, outcomes, strict=True):
        assert (answered, expired) == ((1, 0) if outcome == "answered" else (0, 1))
    assert set(outcomes) == {"answered", "expired"}
    texts = {(item.outcome, item.response) for item in Item.objects.filter(mailbox=mailbox)}
    assert texts == {("answered", "Yes."), ("expired", items.EXPIRED_TEXT)}


def test_two_sweeps_expire_each_item_once(race):
    for _ in range(30):
        backdate(ItemFactory(), 1, "due_at")
    finish = race(4, lambda n: sum(items.expire_due(limit=5) for _ in range(10)))
    assert not finish.errors
    assert sum(finish.results) == 30
    assert not Item.objects.filter(status="pending").exists()


def test_posters_count_one_after_the_other(race, settings):
    settings.INBOX_MAX_OPEN_ITEMS = 5
    mailbox = MailboxFactory()
    finish = race(16, lambda n: items.post(mailbox.pk, tag="a", request=f"{n}?"))
    assert len(finish.results) == 5
    assert [type(error) for error in finish.errors] == [TooManyOpenItems] * 11
    assert Item.objects.filter(mailbox=mailbox).count() == 5


def test_an_identical_request_is_posted_once(race):
    mailbox = MailboxFactory()
    finish = race(12, lambda n: items.post(mailbox.pk, tag="a", request="The same?", origin=1).pk)
    assert len(set(finish.results)) == 1
    assert len(finish.results) == 12
    assert Item.objects.count() == 1


def test_an_answer_and_its_request_never_miss_each_other(race):
    """Whichever comes first, the request ends answered: none of the two looks before the other has written."""
    mailboxes = [MailboxFactory() for _ in range(40)]
    together = threading.Barrier(2)

    def act(index):
        for n, mailbox in enumerate(mailboxes):
            together.wait(30)
            time.sleep(random.random() * 0.002)
            if index:
                items.post(mailbox.pk, tag=f"pay:{n}", request="Paid?")
            else:
                items.resolve_tag(f"pay:{n}", "Paid.", by="bank", via="webhook")

    assert not race(2, act).errors
    assert set(Item.objects.values_list("status", "response")) == {("resolved", "Paid.")}
    assert not EarlyAnswer.objects.filter(taken_at=None).exists()


def test_answers_by_one_tag_close_each_item_once(race):
    for _ in range(10):
        ItemFactory(tag="pay:1")
    finish = race(6, lambda n: items.resolve_tag("pay:1", f"Paid, says {n}.", by=str(n), via="webhook"))
    assert not finish.errors
    assert sorted(pk for closed in finish.results for pk in closed) == sorted(Item.objects.values_list("pk", flat=True))
    for closed, by in zip(finish.results, range(6), strict=True):
        assert set(Item.objects.filter(pk__in=closed).values_list("resolved_by", flat=True)) <= {str(by)}


def test_one_letter_has_one_reader(race):
    mailbox = MailboxFactory()
    ItemFactory.create_batch(60, mailbox=mailbox, resolved=True)

    def take(reader):
        found = []
        while True:
            with transaction.atomic():
                mail, more = reading.take(mailbox.pk, reader, reader)
            found += [letter.id for letter in mail]
            if not more:
                return found

    finish = race(5, take)
    assert not finish.errors
    taken = [pk for found in finish.results for pk in found]
    assert len(taken) == len(set(taken)) == 60
    for reader, found in enumerate(finish.results):
        assert set(Item.objects.filter(consumed_in=reader).values_list("pk", flat=True)) == set(found)


def test_withdrawing_and_resolving_at_once(race):
    rounds = [ItemFactory() for _ in range(30)]
    together = threading.Barrier(2)

    def act(index):
        won = []
        for item in rounds:
            together.wait(30)
            try:
                if index:
                    items.withdraw(item.pk, mailbox_id=item.mailbox_id)
                else:
                    items.resolve(item.pk, "Yes.", by="ada", via="api")
                won.append(1)
            except AlreadyClosed:
                won.append(0)
        return won

    finish = race(2, act)
    assert not finish.errors
    assert [sum(pair) for pair in zip(*finish.results, strict=True)] == [1] * 30
    outcomes = [fresh(item).outcome for item in rounds]
    assert outcomes == [("answered" if answered else "withdrawn") for answered in finish.results[0]]
