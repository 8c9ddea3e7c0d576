"""Numbers and names in an address open nothing that a person may not see: look-ups, guesses, choices, counts, history."""

import pytest
from django.urls import reverse

from inbox.services import answers
from tests.admin import world

AUTOCOMPLETE = "/admin/autocomplete/"


def test_autocomplete_of_requests_gives_only_ones_own(shop, sign_in):
    query = {"app_label": "inbox", "model_name": "resolvelink", "field_name": "item", "term": ""}
    texts = [row["text"] for row in sign_in(shop.bob).get(AUTOCOMPLETE, query).json()["results"]]
    assert sorted(text.split()[0] for text in texts) == ["question:hours", "restock:house"]
    assert sign_in(shop.bob).get(AUTOCOMPLETE, {**query, "term": "approval"}).json()["results"] == []
    assert len(sign_in(shop.sam).get(AUTOCOMPLETE, query).json()["results"]) == 3


@pytest.mark.parametrize(
    ("model", "field"), [("mailbox", "owner"), ("item", "resolver"), ("apikey", "user"), ("resolvelink", "maker")]
)
def test_autocomplete_tells_no_users(shop, sign_in, model, field):
    query = {"app_label": "inbox", "model_name": model, "field_name": field, "term": "a"}
    for user in (shop.ada, shop.olga):
        assert sign_in(user).get(AUTOCOMPLETE, query).status_code == 403


def test_autocomplete_of_mailboxes_needs_the_right_to_see_them(shop, sign_in):
    query = {"app_label": "inbox", "model_name": "item", "field_name": "mailbox", "term": "concierge"}
    some = world.allow(shop.nina, "inbox.view_item")
    assert sign_in(some).get(AUTOCOMPLETE, query).status_code == 403


@pytest.mark.parametrize(
    "lookup",
    [
        "inbox/apikey/?key_hash__startswith=a",
        "inbox/apikey/?user__password__startswith=pbkdf2",
        "inbox/apikey/?user__username=nina",
        "inbox/resolvelink/?token_hash__startswith=a",
        "inbox/resolvelink/?item__response__startswith=a",
        "inbox/resolvelink/?maker__password__startswith=pbkdf2",
        "inbox/mailbox/?owner__password__startswith=pbkdf2",
        "inbox/mailbox/?items__request__startswith=Refund",
        "inbox/notification/?item__request__startswith=Refund",
        "agents/turn/?conversation__messages__text__startswith=a",
        "agents/turn/?token__gt=1",
        "agents/conversation/?mailbox__owner__email__startswith=a",
        "agents/permission/?decided_by__password__startswith=pbkdf2",
    ],
)
def test_no_field_is_guessed_letter_by_letter(shop, sign_in, lookup):
    """A look-up that is no filter of the page is a bad request, not a yes or no."""
    tess = world.person("tess", "auditor", "billing")
    assert sign_in(tess).get(f"/admin/{lookup}").status_code == 400


def test_filters_that_are_offered_work(shop, sign_in):
    client = sign_in(shop.olga)
    for address in (
        "agents/turn/?status__exact=done",
        "agents/turn/?agent=concierge",
        "agents/conversation/?status__exact=open",
        "agents/conversation/?q=stale",
        "agents/permission/?decision__exact=grant",
        "inbox/notification/?status__exact=failed",
    ):
        assert client.get(f"/admin/{address}").status_code == 200, address


def test_lists_count_only_what_one_may_see(shop, sign_in):
    answers.make_link(shop.sam, shop.refund.item.pk)
    answers.make_link(shop.sam, shop.restock.pk)
    for user, count in ((shop.ada, 1), (shop.bob, 1), (shop.sam, 2)):
        response = sign_in(user).get("/admin/inbox/resolvelink/")
        assert response.context["cl"].result_count == count


def test_the_history_of_a_request_is_for_those_who_may_see_it(shop, sign_in):
    answers.resolve_as(shop.ada, shop.refund.item.pk, "Yes.", via="admin")
    address = reverse("admin:inbox_item_history", args=[shop.refund.item.pk])
    assert "Resolved (admin)" in sign_in(shop.ada).get(address).content.decode()
    assert sign_in(shop.bob).get(address).status_code == 404


def test_a_mailbox_page_tells_nothing_of_others_requests(shop, sign_in):
    address = reverse("admin:inbox_mailbox_change", args=[shop.box.pk])
    assert "Refund" not in sign_in(shop.bob).get(address).content.decode()


def test_no_answer_page_leaks_by_next_or_others(shop, sign_in):
    """A stranger's page leads to none of what she may not see. (What was said in a conversation is a right of its own.)"""
    zoe = world.allow(world.person("zoe", "store"), "inbox.view_item", "inbox.resolve_item")
    page = sign_in(zoe).get(reverse("admin:inbox_item_change", args=[shop.note.pk])).content.decode()
    assert reverse("admin:inbox_item_change", args=[shop.refund.item.pk]) not in page
    assert "Refund 23.00" not in page


@pytest.mark.parametrize("number", ["0", "-1", "1e3", "99999999999999999999999999", "%00", "abc", "1/../2"])
def test_odd_numbers_in_an_address_are_not_found(shop, sign_in, number):
    client = sign_in(shop.sam)
    for model in (
        "inbox/item",
        "inbox/mailbox",
        "inbox/apikey",
        "inbox/taggroup",
        "agents/conversation",
        "agents/turn",
    ):
        assert client.get(f"/admin/{model}/{number}/change/").status_code in (302, 404), model
    for address in (
        f"inbox/apikey/{number}/revoke/",
        f"inbox/resolvelink/{number}/revoke/",
        f"agents/conversation/{number}/close/",
    ):
        assert client.get(f"/admin/{address}").status_code in (302, 404), address
