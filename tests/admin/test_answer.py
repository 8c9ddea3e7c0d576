"""One request and its page: what is shown, what a person does to it, and that nothing else can be done to it."""

import pytest
from django.contrib.admin.models import LogEntry
from django.urls import reverse

from inbox.models import Item, ResolveLink
from tests.admin import world


def url(item: Item) -> str:
    return reverse("admin:inbox_item_change", args=[item.pk])


def test_the_page_shows_what_a_person_needs(shop, sign_in):
    page = sign_in(shop.ada).get(url(shop.refund.item)).content.decode()
    for words in (
        "Refund 23.00 for order 1017? The bag was stale.",
        "The agent waits for this answer",
        "concierge/carl",
        "Carl Customer",
        "My last bag was stale. I want my money back.",
        "Tool <bdi>look_up_order</bdi>",
        "Refund order 1017",
        "Exactly what the agent will read",
        f"It wakes conversation {shop.refund.conversation.pk} “A stale bag”, which asked.",
        "Resolve and wake",
        "Resolve, next",
    ):
        assert words in page, words


def test_the_number_of_queries_does_not_grow(shop, sign_in):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from agents.models import Message

    client = sign_in(shop.ada)

    def queries():
        client.get(url(shop.refund.item))
        with CaptureQueriesContext(connection) as captured:
            client.get(url(shop.refund.item))
        return len(captured)

    few = queries()
    Message.objects.bulk_create(
        Message(conversation=shop.refund.conversation, place=place, sender="user", text="More.", author=shop.carl)
        for place in range(4, 300)
    )
    for index in range(30):
        world.pending(shop.box, "approval:more", f"{index}")
    # The messages between the request and the last ones are counted by their places, not read.
    assert queries() <= few + 2
    assert "messages between" in client.get(url(shop.refund.item)).content.decode()
    assert few <= 40


def test_others_of_the_mailbox_are_shown_where_they_may_be_seen(shop, sign_in):
    page = sign_in(shop.ada).get(url(shop.refund.item)).content.decode()
    assert "Are we open on the 24th?" in page
    assert "house blend come back" not in page  # for the group store


def test_resolve_and_wake(shop, sign_in, django_capture_on_commit_callbacks):
    client = sign_in(shop.ada)
    response = client.post(url(shop.refund.item), {"action": "resolve", "response": "Yes.\r\nPaid today."}, follow=True)
    item = Item.objects.get(pk=shop.refund.item.pk)
    assert (item.status, item.outcome, item.response) == ("resolved", "answered", "Yes.\nPaid today.")
    assert (item.resolved_by, item.resolver, item.resolved_via) == ("ada", shop.ada, "admin")
    assert [entry.user for entry in LogEntry.objects.filter(object_id=str(item.pk))] == [shop.ada]
    page = response.content.decode()
    assert "Answered request" in page
    assert "Paid today." in page
    assert 'name="response"' not in page


def test_resolve_next_goes_to_the_next_in_the_queue(shop, sign_in):
    second = world.due(world.pending(shop.box, "approval:gift", "A gift?"), 2)
    world.due(shop.refund.item, 1)
    response = sign_in(shop.ada).post(url(shop.refund.item), {"action": "next", "response": "Yes."})
    assert response["Location"].startswith(url(second))
    response = sign_in(shop.ada).post(url(second), {"action": "next", "response": "Yes."})
    assert response["Location"].startswith(url(shop.note))
    response = sign_in(shop.ada).post(url(shop.note), {"action": "next", "response": "Yes."})
    assert response["Location"].startswith(reverse("admin:inbox_item_changelist"))


def test_the_filters_of_the_queue_go_along(shop, sign_in):
    world.pending(shop.box, "approval:gift", "A gift?")
    query = "?tab=mine&tag=approval:*"
    page = sign_in(shop.ada).get(url(shop.refund.item) + query).content.decode()
    assert "tag=approval%3A%2A" in page
    response = sign_in(shop.ada).post(url(shop.refund.item) + query, {"action": "next", "response": "Yes."})
    assert "tag=approval%3A%2A" in response["Location"]


def test_cancel_needs_a_reason(shop, sign_in):
    client = sign_in(shop.ada)
    response = client.post(url(shop.refund.item), {"action": "cancel", "reason": "  "})
    assert response.status_code == 422
    assert "reason is blank" in response.content.decode()
    assert Item.objects.get(pk=shop.refund.item.pk).status == "pending"
    client.post(url(shop.refund.item), {"action": "cancel", "reason": "Sold out for good."})
    item = Item.objects.get(pk=shop.refund.item.pk)
    assert (item.outcome, item.response) == ("cancelled", "Sold out for good.")


@pytest.mark.parametrize(("text", "status"), [("", 422), (" \u200b", 422), ("x" * 70_000, 413), ("a\x00b", 422)])
def test_text_that_cannot_be_an_answer_comes_back_to_its_box(shop, sign_in, text, status):
    response = sign_in(shop.ada).post(url(shop.refund.item), {"action": "resolve", "response": text})
    assert response.status_code == status
    assert 'class="errornote"' in response.content.decode()
    assert text.strip("\x00") == "" or text[:1] in response.content.decode()
    assert Item.objects.get(pk=shop.refund.item.pk).status == "pending"


def test_a_link_is_shown_once_and_can_be_revoked(shop, sign_in, client):
    desk = sign_in(shop.ada)
    page = desk.post(url(shop.refund.item), {"action": "link"}).content.decode()
    link = ResolveLink.objects.get()
    token = page.split("/r/")[1].split("<")[0]
    assert client.get(f"/r/{token}").status_code == 200
    assert link.token_hash not in page
    assert token not in desk.get(url(shop.refund.item)).content.decode()
    shown = reverse("admin:inbox_resolvelink_change", args=[link.pk])
    assert "alive" in desk.get(shown).content.decode()
    revoke = reverse("admin:inbox_resolvelink_revoke", args=[link.pk])
    assert desk.get(revoke).status_code == 200
    assert client.get(f"/r/{token}").status_code == 200  # asking changed nothing
    desk.post(revoke)
    assert client.get(f"/r/{token}").status_code == 410


def test_canned_answers_of_the_tag_are_offered(shop, sign_in):
    from inbox.services.rights import set_canned_answer

    row = set_canned_answer("approval:*", "Yes, refund", "Refund it in full.")
    set_canned_answer("restock:*", "Next week", "It comes next week.")
    client = sign_in(shop.ada)
    page = client.get(url(shop.refund.item)).content.decode()
    assert "Yes, refund" in page
    assert "Next week" not in page
    # Without script the link fills the box.
    assert ">Refund it in full.</textarea>" in client.get(f"{url(shop.refund.item)}?canned={row.pk}").content.decode()


def test_the_preview_is_the_letter_that_comes(shop, sign_in):
    """What the page shows is what the agent's own frame makes of the answer, but for the code and the time."""
    import re

    from agents.frames import frame
    from inbox.services import answers

    page = sign_in(shop.ada).get(url(shop.refund.item)).content.decode()
    shown = page.split('<details class="letter" open>')[1].split("</details>")[0]
    preview = re.sub(r"<[^>]+>", "", shown.split('<div class="literal" dir="auto">')[1].split("</div>")[0])
    item = answers.resolve_as(shop.ada, shop.refund.item.pk, "(your answer)", via="admin")
    real = frame(item, "N")
    nonce = re.search(r"\[\[mail (\w+) ", preview)[1]
    times = r"\d{4}-\d\d-\d\d \d\d:\d\d UTC"
    assert re.sub(times, "T", preview.replace(nonce, "N")) == re.sub(times, "T", real)


def test_who_may_only_look_has_no_box(shop, sign_in):
    client = sign_in(shop.vera)
    page = client.get(url(shop.refund.item))
    assert page.status_code == 200
    assert 'name="response"' not in page.content.decode()
    response = client.post(url(shop.refund.item), {"action": "resolve", "response": "What I typed"})
    assert response.status_code == 403
    assert "What I typed" in response.content.decode()
    assert Item.objects.get(pk=shop.refund.item.pk).status == "pending"


def test_what_one_may_not_see_is_not_there(shop, sign_in):
    client = sign_in(shop.bob)
    assert client.get(url(shop.refund.item)).status_code == 404
    assert client.post(url(shop.refund.item), {"action": "resolve", "response": "x"}).status_code == 404
    assert client.get(reverse("admin:inbox_item_history", args=[shop.refund.item.pk])).status_code == 404
    assert client.get(url(shop.refund.item).replace(str(shop.refund.item.pk), "99999999")).status_code == 404


def test_other_fields_change_nothing(shop, sign_in):
    """Mass assignment: only the one text is read."""
    sent = {
        "action": "resolve", "response": "Yes.", "status": "consumed", "outcome": "expired", "resolved_by": "eve",
        "mailbox": "999", "tag": "x", "request": "another", "blocking": "", "due_at_0": "2030-01-01", "via": "mesh",
        "resolver": str(shop.sam.pk), "reason": "no", "id": "999", "user": str(shop.sam.pk), "_save": "1",
    }  # fmt: skip
    before = Item.objects.get(pk=shop.refund.item.pk)
    sign_in(shop.ada).post(url(shop.refund.item), sent)
    after = Item.objects.get(pk=shop.refund.item.pk)
    assert (after.status, after.outcome, after.resolved_by, after.resolved_via) == (
        "resolved",
        "answered",
        "ada",
        "admin",
    )
    assert after.resolver == shop.ada
    for field in ("mailbox_id", "tag", "request", "blocking", "due_at", "asked", "wakes", "origin", "posted_in"):
        assert getattr(after, field) == getattr(before, field), field


@pytest.mark.parametrize("action", ["", "save", "delete", "consume", "__init__"])
def test_an_unknown_action_is_refused(shop, sign_in, action):
    response = sign_in(shop.ada).post(url(shop.refund.item), {"action": action, "response": "x"})
    assert response.status_code == 400
    assert Item.objects.get(pk=shop.refund.item.pk).status == "pending"


def test_nobody_adds_edits_or_deletes_a_request(shop, sign_in):
    client = sign_in(shop.sam)
    assert client.get(reverse("admin:inbox_item_add")).status_code == 403
    assert client.post(reverse("admin:inbox_item_add"), {"tag": "x"}).status_code == 403
    delete = reverse("admin:inbox_item_delete", args=[shop.note.pk])
    assert client.get(delete).status_code == 403
    assert client.post(delete, {"post": "yes"}).status_code == 403
    changelist = reverse("admin:inbox_item_changelist")
    sent = {"action": "delete_selected", "_selected_action": [shop.note.pk], "post": "yes"}
    assert client.post(changelist, sent).status_code == 405
    assert Item.objects.filter(pk=shop.note.pk).exists()


def test_the_timeline_tells_the_whole_story(shop, sign_in):
    from inbox.models import Notification
    from inbox.services import answers
    from inbox.services.reading import take

    talk = shop.refund
    Notification.objects.create(
        item=talk.item, notifier="email", status="failed", error="Connection refused", not_before=talk.item.created_at
    )
    answers.resolve_as(shop.ada, talk.item.pk, "Yes.", via="api")
    from django.db import transaction

    with transaction.atomic():
        take(talk.item.mailbox_id, talk.conversation.pk, talk.turn.pk)
    page = sign_in(shop.ada).get(url(talk.item)).content.decode()
    turn = reverse("admin:agents_turn_change", args=[talk.turn.pk])
    for words in (
        "Posted by the agent concierge",
        f'<a href="{turn}">turn {talk.turn.pk}</a>',
        "Notice could not be sent (email)",
        "Connection refused",
        "Answered by ada through the API",
        "Read by the agent",
    ):
        assert words in page, words
