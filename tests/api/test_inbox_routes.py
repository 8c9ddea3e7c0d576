"""The inbox's routes: what they take, what they give, what they change."""

from datetime import datetime, timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.utils import timezone

from inbox.models import Item, ResolveLink
from inbox.services import items, letters
from inbox.services.answers import find_link
from inbox.services.mailboxes import open_mailbox
from tests.api.kit import assert_problem, by_key

pytestmark = pytest.mark.django_db

FIELDS = {
    *("id", "mailbox", "tag", "request", "response", "status", "outcome", "blocking", "asked", "created_at", "due_at"),
    *("resolved_at", "resolved_by", "resolved_via", "consumed_at"),
}


def test_a_pending_item(world):
    found = by_key(world.finance).get(f"/inbox/items/{world.guarded.pk}").json()
    assert set(found) == FIELDS
    assert found | {"created_at": None} == {
        "id": str(world.guarded.pk),
        "mailbox": "helper/ada",
        "tag": "approval:refund",
        "request": "Refund 10?",
        "response": "",
        "status": "pending",
        "outcome": None,
        "blocking": True,
        "asked": True,
        "created_at": None,
        "due_at": None,
        "resolved_at": None,
        "resolved_by": None,
        "resolved_via": None,
        "consumed_at": None,
    }
    assert abs(datetime.fromisoformat(found["created_at"]) - timezone.now()) < timedelta(minutes=1)


def test_resolving(world):
    path = f"/inbox/items/{world.guarded.pk}"
    found = by_key(world.finance).post(f"{path}/resolve", {"response": "Yes, all 10."}).json()
    assert set(found) == FIELDS
    assert (found["status"], found["outcome"], found["response"]) == ("resolved", "answered", "Yes, all 10.")
    assert (found["resolved_by"], found["resolved_via"]) == ("finance", "api")
    assert found["resolved_at"] is not None
    assert by_key(world.ada).get(path).json() == found
    entry = LogEntry.objects.get()
    assert (entry.user, entry.object_id) == (world.finance, str(world.guarded.pk))


def test_a_late_answer_gets_its_text_back(world):
    path = f"/inbox/items/{world.guarded.pk}"
    by_key(world.finance).post(f"{path}/resolve", {"response": "Yes."})
    for action, body in (("resolve", {"response": "No!"}), ("cancel", {"reason": "No!"})):
        found = assert_problem(by_key(world.root).post(f"{path}/{action}", body), 409, "already-closed")
        assert (found["by"], found["via"], found["outcome"], found["text"]) == ("finance", "api", "answered", "No!")
        assert "finance" in found["detail"]
        assert datetime.fromisoformat(found["at"])
    assert by_key(world.ada).get(path).json()["response"] == "Yes."
    assert LogEntry.objects.count() == 1


def test_cancelling(world):
    found = by_key(world.finance).post(f"/inbox/items/{world.free.pk}/cancel", {"reason": "We sell no beans."}).json()
    assert (found["status"], found["outcome"], found["response"]) == ("resolved", "cancelled", "We sell no beans.")


def test_dropping(world):
    mail = {"mailbox": "HELPER/Ada", "tag": "news", "request": "News", "response": "We are open."}
    response = by_key(world.root).post("/inbox/items", mail)
    found = response.json()
    assert (response.status_code, set(found)) == (201, FIELDS)
    assert (found["mailbox"], found["asked"], found["status"], found["outcome"]) == (
        "helper/ada",
        False,
        "resolved",
        "answered",
    )
    assert Item.objects.get(pk=found["id"]).resolver == world.root


def test_a_link(world):
    response = by_key(world.finance).post(f"/inbox/items/{world.guarded.pk}/link", {"expires_in_s": 600})
    found = response.json()
    assert (response.status_code, set(found)) == (201, {"url", "expires_at"})
    left = datetime.fromisoformat(found["expires_at"]) - timezone.now()
    assert timedelta(seconds=540) < left <= timedelta(seconds=600)
    base, _, token = found["url"].rpartition("/")
    assert base == "http://127.0.0.1:8000/r"
    assert find_link(token).item == world.guarded
    assert token not in str(ResolveLink.objects.values().get())


def test_a_link_without_a_wish_lives_for_a_day(world):
    found = by_key(world.finance).post(f"/inbox/items/{world.guarded.pk}/link").json()
    left = datetime.fromisoformat(found["expires_at"]) - timezone.now()
    assert timedelta(hours=23) < left <= timedelta(hours=24)


@pytest.mark.parametrize(
    ("wish", "slug"),
    [
        (59, "bad-deadline"),
        (-1, "bad-deadline"),
        (10**9, "bad-deadline"),
        (1.5, "invalid"),
        ("60", "invalid"),
        (True, "invalid"),
    ],
)
def test_a_link_with_an_odd_wish(world, wish, slug):
    response = by_key(world.finance).post(f"/inbox/items/{world.guarded.pk}/link", {"expires_in_s": wish})
    assert_problem(response, 422, slug)
    assert not ResolveLink.objects.exists()


def test_no_link_for_what_is_closed(world):
    assert_problem(by_key(world.finance).post(f"/inbox/items/{world.closed.pk}/link"), 409, "already-closed")


@pytest.mark.parametrize(
    ("query", "tags"),
    [
        ("", ["restock:milk", "restock:beans", "approval:refund"]),
        ("status=pending", ["restock:beans", "approval:refund"]),
        ("status=resolved", ["restock:milk"]),
        ("status=consumed", []),
        ("tag=restock:beans", ["restock:beans"]),
        ("tag=restock", []),
        ("blocking=true", ["approval:refund"]),
        ("blocking=false", ["restock:milk", "restock:beans"]),
        ("status=pending&blocking=false", ["restock:beans"]),
        ("mailbox=helper/ada", ["restock:milk", "restock:beans", "approval:refund"]),
        ("mailbox=HELPER/ADA", ["restock:milk", "restock:beans", "approval:refund"]),
        ("mailbox=helper/bob", []),
        ("mailbox=nowhere", []),
    ],
)
def test_filters(world, query, tags):
    found = by_key(world.ada).get(f"/inbox/items?{query}").json()
    assert [item["tag"] for item in found["items"]] == tags
    assert found["next"] is None


def test_owning_several_mailboxes(world):
    """Their pages are merged, newest first."""
    side = open_mailbox("helper/ada/side", agent="helper", owner=world.ada)
    posted = [items.post(box.pk, tag="mixed", request=f"{n}") for n in range(3) for box in (side, world.mailbox)]
    caller = by_key(world.ada)
    page = caller.get("/inbox/items?tag=mixed&limit=4").json()
    rest = caller.get(f"/inbox/items?tag=mixed&limit=4&cursor={page['next']}").json()
    found = [item["id"] for item in page["items"] + rest["items"]]
    assert found == [str(item.pk) for item in reversed(posted)]
    assert {item["mailbox"] for item in page["items"]} == {"helper/ada", "helper/ada/side"}


def test_reading_changes_nothing(world):
    """Case 23."""
    before = list(Item.objects.order_by("pk").values())
    for who in (world.ada, world.finance, world.root):
        for path in ("/inbox/items", f"/inbox/items/{world.guarded.pk}", f"/inbox/items/{world.closed.pk}"):
            for _ in range(3):
                assert by_key(who).get(path).status_code == 200
    assert list(Item.objects.order_by("pk").values()) == before
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("who", ["ada", "finance", "root"])
def test_a_page_costs_the_same_however_long_it_is(world, who, django_assert_max_num_queries):
    caller = by_key(getattr(world, who))
    counts = []
    for _ in range(2):
        with django_assert_max_num_queries(12) as captured:
            caller.get("/inbox/items?limit=200")
        counts.append(len(captured))
        for number in range(30):
            letters.drop(world.mailbox.pk, tag="many", request=f"{number}", response="x", by="x", via="system")
    assert counts[0] == counts[1]
    assert not any("COUNT(" in query["sql"] for query in captured)
