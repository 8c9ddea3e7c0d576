"""Somebody or something else was first: nothing is lost, nobody is alarmed without need."""

import pytest
from django.contrib.admin.models import LogEntry
from django.db import transaction
from django.urls import reverse

from inbox.models import Item
from inbox.services import answers, items
from inbox.services.reading import take
from tests.admin import world

TYPED = "What I had <b>typed</b>\nin two lines"


def url(item: Item) -> str:
    return reverse("admin:inbox_item_change", args=[item.pk])


def log_count(item: Item) -> int:
    return LogEntry.objects.filter(object_id=str(item.pk)).count()


def test_the_page_says_who_when_what_and_keeps_the_text(shop, sign_in):
    item = shop.refund.item
    answers.resolve_as(shop.sam, item.pk, "No, never.", via="api")
    before = Item.objects.filter(pk=item.pk).values().get()
    response = sign_in(shop.ada).post(url(item), {"action": "resolve", "response": TYPED})
    page = response.content.decode()
    assert response.status_code == 409
    assert "<bdi>Answered by sam through the API</bdi>" in page
    assert "No, never." in page
    assert "What I had &lt;b&gt;typed&lt;/b&gt;\nin two lines</textarea>" in page
    assert Item.objects.filter(pk=item.pk).values().get() == before
    assert log_count(item) == 1


def test_a_stale_form_after_the_agent_has_read_the_answer(shop, sign_in):
    item = shop.refund.item
    answers.resolve_as(shop.sam, item.pk, "No.", via="admin")
    with transaction.atomic():
        take(item.mailbox_id, shop.refund.conversation.pk, shop.refund.turn.pk)
    for action in ("resolve", "next", "cancel"):
        response = sign_in(shop.ada).post(url(item), {"action": action, "response": TYPED, "reason": TYPED})
        assert response.status_code == 409, action
        assert "in two lines</textarea>" in response.content.decode()
    assert Item.objects.get(pk=item.pk).status == "consumed"


def test_an_expiry_is_told_as_one(shop, sign_in):
    world.due(shop.refund.item, -1)
    assert items.expire_due() == 1
    page = sign_in(shop.ada).post(url(shop.refund.item), {"action": "resolve", "response": TYPED}).content.decode()
    assert "Expired: nobody answered in time" in page
    assert "refused" not in page


def test_a_withdrawn_request(shop, sign_in):
    items.withdraw(shop.refund.item.pk, mailbox_id=shop.box.pk, reason="The customer found it.")
    page = sign_in(shop.ada).post(url(shop.refund.item), {"action": "resolve", "response": TYPED}).content.decode()
    assert "Withdrawn by its agent" in page
    assert "The customer found it." in page


@pytest.mark.parametrize(("action", "field"), [("resolve", "response"), ("next", "response"), ("cancel", "reason")])
def test_a_double_click_is_one_answer_and_no_alarm(shop, sign_in, action, field):
    client = sign_in(shop.ada)
    first = client.post(url(shop.refund.item), {"action": action, field: TYPED})
    second = client.post(url(shop.refund.item), {"action": action, field: TYPED})
    assert (first.status_code, second.status_code) == (302, 302)
    assert first["Location"] == second["Location"]
    assert log_count(shop.refund.item) == 1


def test_back_and_another_text_is_a_conflict_with_oneself(shop, sign_in):
    client = sign_in(shop.ada)
    client.post(url(shop.refund.item), {"action": "resolve", "response": "Yes."})
    response = client.post(url(shop.refund.item), {"action": "resolve", "response": "No!"})
    assert response.status_code == 409
    page = response.content.decode()
    assert "You have closed request" in page
    assert "No!</textarea>" in page
    assert Item.objects.get(pk=shop.refund.item.pk).response == "Yes."


def test_the_same_words_of_another_person_are_a_conflict(shop, sign_in):
    sign_in(shop.sam).post(url(shop.refund.item), {"action": "resolve", "response": "Yes."})
    response = sign_in(shop.ada).post(url(shop.refund.item), {"action": "resolve", "response": "Yes."})
    assert response.status_code == 409


def test_a_link_for_a_closed_request_is_a_conflict(shop, sign_in):
    answers.resolve_as(shop.sam, shop.refund.item.pk, "No.", via="admin")
    assert sign_in(shop.ada).post(url(shop.refund.item), {"action": "link"}).status_code == 409


def test_the_right_was_lost_while_typing(shop, sign_in):
    client = sign_in(shop.ada)
    assert 'name="response"' in client.get(url(shop.refund.item)).content.decode()
    shop.ada.groups.remove(*shop.ada.groups.filter(name="resolver"))
    world.allow(shop.ada, "inbox.view_item")
    response = client.post(url(shop.refund.item), {"action": "resolve", "response": TYPED})
    assert response.status_code == 403
    assert "in two lines</textarea>" in response.content.decode()
    assert Item.objects.get(pk=shop.refund.item.pk).status == "pending"


def test_a_form_from_elsewhere_is_refused(shop, sign_in):
    """CSRF: a session without its token changes nothing."""
    client = sign_in(shop.ada, enforce_csrf_checks=True)
    for address, data in (
        (url(shop.refund.item), {"action": "resolve", "response": "x"}),
        (reverse("admin:inbox_item_bulk"), {"id": shop.refund.item.pk, "response": "x"}),
    ):
        assert client.post(address, data).status_code == 403
        assert client.post(address, data, headers={"origin": "https://evil.example"}).status_code == 403
    assert Item.objects.get(pk=shop.refund.item.pk).status == "pending"
