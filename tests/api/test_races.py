"""Many callers at the same moment, over HTTP, each with a connection of its own."""

import pytest
from django.contrib.admin.models import LogEntry

from inbox.models import Item
from tests.api.kit import Caller, assert_problem, by_key

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("racers", [20])
def test_one_answer_wins(world, race, racers):
    """Case 19: half say approve, half deny; one 200, nineteen 409, one audit record, the winner's text kept."""
    keys = [by_key(world.finance).key for _ in range(racers)]
    path = f"/inbox/items/{world.guarded.pk}/resolve"

    def act(index):
        return Caller(key=keys[index]).post(path, {"response": f"{'approve' if index % 2 else 'deny'} {index}"})

    finish = race(racers, act)
    assert not finish.errors
    won = [index for index, response in enumerate(finish.results) if response.status_code == 200]
    assert len(won) == 1
    for index, response in enumerate(finish.results):
        if index not in won:
            found = assert_problem(response, 409, "already-closed")
            assert found["text"].endswith(f" {index}")
            assert found["by"] == "finance"
    world.guarded.refresh_from_db()
    assert world.guarded.response == f"{'approve' if won[0] % 2 else 'deny'} {won[0]}"
    assert LogEntry.objects.filter(object_id=str(world.guarded.pk)).count() == 1


def test_answering_and_cancelling(world, race):
    """Either the answer or the cancellation stands, never a mixture."""
    key = by_key(world.finance).key
    actions = [("resolve", {"response": "Yes."}), ("cancel", {"reason": "No."})]

    def act(index):
        action, body = actions[index % 2]
        return Caller(key=key).post(f"/inbox/items/{world.free.pk}/{action}", body)

    finish = race(8, act)
    assert not finish.errors
    assert sorted(response.status_code for response in finish.results) == [200] + [409] * 7
    world.free.refresh_from_db()
    assert (world.free.outcome, world.free.response) in [
        (Item.Outcome.ANSWERED, "Yes."),
        (Item.Outcome.CANCELLED, "No."),
    ]


def test_the_same_home_opened_by_many(world, race):
    """One mailbox, however many conversations are opened on it at once."""
    key = by_key(world.bob).key
    finish = race(
        6, lambda index: Caller(key=key).post("/conversations", {"agent": "helper", "mailbox": "helper/bob/new"})
    )
    assert not finish.errors
    assert {response.status_code for response in finish.results} == {201}
    assert len({response.json()["id"] for response in finish.results}) == 6
    assert {response.json()["mailbox"] for response in finish.results} == {"helper/bob/new"}
