"""An answer and its request may come in any order, also at the same moment: it is never lost and never given twice."""

import time

import pytest

from inbox.models import EarlyAnswer, Item
from inbox.services import items
from tests.inbox.kit import a_mailbox, a_request, now_of

ROUNDS = 200
STEP_S = 0.001


@pytest.mark.slow
def test_request_and_answer_at_the_same_moment(race):
    """200 rounds: the request ends resolved with that answer, by whichever of the two came second. Whoever came first starts a
    little later the next time, so that they keep meeting, however busy the machine is."""
    mailboxes = [a_mailbox() for _ in range(ROUNDS // 10)]
    came_first = {"request": 0, "answer": 0}
    lead = 0.0  # of the request, in seconds
    for number in range(ROUNDS):
        tag = f"pay:{number}"

        def act(racer, tag=tag, mailbox=mailboxes[number // 10], lead=lead):
            time.sleep(max(lead if racer else -lead, 0))
            if racer:
                return items.resolve_tag(tag, f"{tag} is paid.", by="bank", via="webhook")
            return items.post(mailbox.pk, tag=tag, request="Is it paid?")

        finish = race(2, act)
        assert not finish.errors
        posted, closed = finish.results
        item = now_of(posted)
        assert (item.status, item.response, item.resolved_by) == ("resolved", f"{tag} is paid.", "bank")
        early = list(EarlyAnswer.objects.filter(tag=tag).values_list("taken_by", flat=True))
        assert (closed, early) in (([item.pk], []), ([], [item.pk]))
        came_first["answer" if early else "request"] += 1
        lead += STEP_S if early else -STEP_S
    assert Item.objects.count() == ROUNDS
    assert min(came_first.values()) > 0, f"the race was none: {came_first}"


@pytest.mark.django_db
def test_it_is_given_to_the_first_request_only():
    assert items.resolve_tag("pay:7", "Paid.", by="bank", via="webhook") == []
    assert now_of(a_request("pay:77")).status == "pending"
    assert now_of(a_request("pay:7")).status == "resolved"
    assert now_of(a_request("pay:7")).status == "pending"


@pytest.mark.django_db
def test_it_is_kept_for_a_while_only(settings):
    items.resolve_tag("pay:7", "Paid.", by="bank", via="webhook")
    settings.INBOX_EARLY_ANSWER_S = -1
    assert now_of(a_request("pay:7")).status == "pending"


def test_one_early_answer_for_many_requests_at_once(race):
    items.resolve_tag("pay:7", "Paid.", by="bank", via="webhook")
    mailboxes = [a_mailbox() for _ in range(6)]
    finish = race(6, lambda n: items.post(mailboxes[n].pk, tag="pay:7", request="Is it paid?"))
    assert not finish.errors
    assert sorted(now_of(item).status for item in finish.results) == ["pending"] * 5 + ["resolved"]
