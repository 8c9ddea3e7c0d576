"""One answer for many: each through the service, with its own right, log entry and outcome."""

from django.contrib.admin.models import LogEntry
from django.db import transaction
from django.urls import reverse

from inbox.models import Item
from inbox.services import answers
from inbox.services.desk import MAX_AT_ONCE
from inbox.services.reading import take
from tests.admin import world

BULK = "/admin/inbox/item/bulk/"


def test_ten_of_which_three_are_not_hers_and_two_are_consumed(shop, sign_in):
    """Case 28. The three she may see, since the mailbox is her own, but not answer."""
    hers = [world.pending(shop.box, "question:x", f"{index}") for index in range(5)]
    own = world.mailbox("concierge/ada", shop.ada)
    foreign = [world.pending(own, "restock:x", f"{index}") for index in range(3)]
    read = [world.answered(shop.box, tag="q", request=f"read {index}") for index in range(2)]
    with transaction.atomic():
        take(shop.box.pk, 0, 0)
    ids = [item.pk for item in [*foreign, *read, *hers]]
    response = sign_in(shop.ada).post(BULK, {"id": ids, "response": "Yes, all of you."})
    assert response.context["title"] == "5 resolved, 3 not yours, 2 already answered"
    assert Item.objects.filter(pk__in=ids, response="Yes, all of you.", resolver=shop.ada).count() == 5
    assert {item.status for item in Item.objects.filter(pk__in=[item.pk for item in foreign])} == {"pending"}
    logged = LogEntry.objects.filter(user=shop.ada, object_id__in=ids)
    assert sorted(int(entry.object_id) for entry in logged) == sorted(item.pk for item in hers)
    refused = [fate for fate, _ in response.context["rows"] if fate.kind != "resolved"]
    assert len(refused) == 5
    assert all(fate.why for fate in refused)


def test_the_page_before_shows_what_was_selected_and_changes_nothing(shop, sign_in):
    response = sign_in(shop.ada).get(f"{BULK}?id={shop.refund.item.pk}&id={shop.note.pk}")
    page = response.content.decode()
    assert "Refund 23.00" in page
    assert "Are we open" in page
    assert Item.objects.filter(status="pending").count() == 3


def test_only_canned_answers_that_suit_them_all(shop, sign_in):
    from inbox.services.rights import set_canned_answer

    set_canned_answer("approval:*", "Approve", "Yes.")
    set_canned_answer("*", "Wait", "Later.")
    client = sign_in(shop.ada)
    titles = [row.title for row in client.get(f"{BULK}?id={shop.refund.item.pk}").context["canned"]]
    assert titles == ["Approve", "Wait"]
    both = client.get(f"{BULK}?id={shop.refund.item.pk}&id={shop.note.pk}")
    assert [row.title for row in both.context["canned"]] == ["Wait"]


def test_what_one_may_not_see_is_not_found_and_not_told(shop, sign_in):
    """IDOR: a number in the form opens nothing, and the summary does not tell whether it exists."""
    client = sign_in(shop.bob)
    assert "Refund" not in client.get(f"{BULK}?id={shop.refund.item.pk}").content.decode()
    response = client.post(BULK, {"id": [shop.refund.item.pk, 99999999], "response": "x"})
    assert [fate.kind for fate, _ in response.context["rows"]] == ["missing", "missing"]
    assert "Refund" not in response.content.decode()
    assert Item.objects.get(pk=shop.refund.item.pk).status == "pending"


def test_sent_twice_it_is_one_answer_each(shop, sign_in):
    client, sent = sign_in(shop.ada), {"id": [shop.refund.item.pk, shop.note.pk], "response": "Yes."}
    client.post(BULK, sent)
    response = client.post(BULK, sent)
    assert response.context["title"] == "2 resolved"
    assert LogEntry.objects.count() == 2


def test_answered_by_another_meanwhile(shop, sign_in):
    answers.resolve_as(shop.sam, shop.note.pk, "Yes.", via="admin")
    response = sign_in(shop.ada).post(BULK, {"id": [shop.refund.item.pk, shop.note.pk], "response": "Yes."})
    assert response.context["title"] == "1 resolved, 1 already answered"
    assert "by sam" in response.content.decode()


def test_a_bad_text_changes_nothing_and_comes_back(shop, sign_in):
    ids = [shop.refund.item.pk, shop.note.pk]
    for text, status in ((" ", 422), ("x" * 70_000, 413)):
        response = sign_in(shop.ada).post(BULK, {"id": ids, "response": text})
        assert response.status_code == status
        assert [item.pk for item in response.context["items"]] == ids
    assert Item.objects.filter(status="pending").count() == 3


def test_no_more_than_two_hundred(shop, sign_in):
    ids = [world.pending(shop.box, "q", f"{index}").pk for index in range(MAX_AT_ONCE + 1)]
    client = sign_in(shop.ada)
    response = client.post(BULK, {"id": ids, "response": "x"})
    assert response.status_code == 422
    assert "more than 200" in response.content.decode()
    assert not Item.objects.filter(status="resolved").exists()
    assert "200 can be answered at once" in client.get(BULK, {"id": ids}).content.decode()


def test_they_are_closed_in_id_order(shop, sign_in, monkeypatch):
    """Two people who answer the same many in other orders do not wait for each other."""
    from inbox.services import desk

    order = []
    monkeypatch.setattr(desk, "resolve_as", lambda user, pk, text, via: order.append(pk))
    ids = [world.pending(shop.box, "q", f"{index}").pk for index in range(5)]
    sign_in(shop.ada).post(BULK, {"id": [ids[3], ids[0], ids[4], ids[0]], "response": "x"})
    assert order == [ids[0], ids[3], ids[4]]
    order.clear()
    desk.resolve_many(shop.ada, [ids[2], ids[1], ids[2]], "x", via="admin")
    assert order == [ids[1], ids[2]]


def test_a_bad_number_is_a_bad_request(shop, sign_in):
    for value in ("x", "-1", "1.5", "9" * 30, ""):
        assert sign_in(shop.ada).post(BULK, {"id": value, "response": "x"}).status_code == 400


def test_nothing_selected(shop, sign_in):
    assert "Nothing was selected" in sign_in(shop.ada).get(reverse("admin:inbox_item_bulk")).content.decode()
