"""The desk in a real browser: two members of staff in different groups, and a customer."""

import re

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse
from playwright.sync_api import expect

from inbox.models import Item, ResolveLink, TagGroup
from inbox.services import answers
from tests.admin import world
from tests.admin.pictures import shoot

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def shop(transactional_db):
    shop = world.company()
    shop.queue = world.busy(shop)
    return shop


@pytest.fixture
def desk(browser, live_server):
    """Opens the desk as somebody: a browser of her own, signed in."""
    contexts = []

    def opened(user, **options):
        context = browser.new_context(base_url=live_server.url, viewport={"width": 1280, "height": 900}, **options)
        contexts.append(context)
        client = Client()
        client.force_login(user)
        context.add_cookies([{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": live_server.url}])
        page = context.new_page()
        page.faults = []
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.on("console", lambda message: message.type == "error" and page.faults.append(message.text))
        return page

    yield opened
    faults = [fault for context in contexts for page in context.pages for fault in getattr(page, "faults", [])]
    for context in contexts:
        context.close()
    # A page that answers 4xx on purpose is named by the browser; scripts and the policy must not complain.
    assert [fault for fault in faults if "the server responded with a status of 4" not in fault] == []


def url(item):
    return reverse("admin:inbox_item_change", args=[item.pk])


def status(item):
    return Item.objects.values_list("status", flat=True).get(pk=item.pk)


def test_signing_in_and_answering_the_first(shop, browser, live_server):
    page = browser.new_context(base_url=live_server.url).new_page()
    page.goto("/admin/inbox/item/")
    page.get_by_label("Username").fill("ada")
    page.get_by_label("Password").fill(world.PASSWORD)
    page.get_by_role("button", name="Log in").click()
    first = page.locator("td.request a").first
    expect(first).to_have_text("Refund 12.50 for order 1009? It came a week late.")
    first.click()
    page.get_by_label("Your answer").fill("Yes, refund it.")
    expect(page.locator("#letter-answer")).to_have_text("Yes, refund it.")
    page.get_by_role("button", name="Resolve and wake").click()
    expect(page.locator(".messagelist")).to_contain_text("Answered request")
    expect(page.locator(".given")).to_contain_text("Yes, refund it.")
    assert Item.objects.get(pk=shop.queue[0].pk).resolver == shop.ada
    page.context.close()


def test_two_groups_see_each_its_own(shop, desk):
    ada, bob = desk(shop.ada), desk(shop.bob)
    for page in (ada, bob):
        page.goto("/admin/inbox/item/")
    assert ada.get_by_text("Refund 23.00").count() == 1
    assert ada.get_by_text("house blend come back").count() == 0
    assert bob.get_by_text("Refund 23.00").count() == 0
    assert bob.get_by_text("house blend come back").count() == 1
    assert bob.goto(url(shop.refund.item)).status == 404
    bob.faults.clear()


def test_a_customer_is_shown_the_door(shop, desk):
    carl = desk(shop.carl)
    for address in ("/admin/", "/admin/inbox/item/", url(shop.refund.item)):
        carl.goto(address)
        assert "/admin/login/" in carl.url
        assert "Refund" not in carl.content()


def test_the_keyboard_answers_and_goes_on(shop, desk):
    page = desk(shop.ada)
    page.goto(url(shop.queue[0]))
    page.keyboard.type("Yes.")  # the box has the focus
    page.keyboard.press("Control+Shift+Enter")
    page.wait_for_url(f"**{url(shop.queue[1])}*")
    page.keyboard.type("No.")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".given")).to_contain_text("No.")
    assert [status(item) for item in shop.queue[:3]] == ["resolved", "resolved", "pending"]


def test_a_canned_answer_goes_into_the_box_and_can_be_changed(shop, desk):
    page = desk(shop.ada)
    page.goto(url(shop.queue[0]))
    page.get_by_role("link", name="Yes, go ahead").click()
    box = page.get_by_label("Your answer")
    expect(box).to_have_value("Approved. Go ahead.")
    box.press("End")
    box.type(" Today.")
    page.get_by_role("button", name="Resolve, next").click()
    page.wait_for_url(f"**{url(shop.queue[1])}*")
    assert Item.objects.get(pk=shop.queue[0].pk).response == "Approved. Go ahead. Today."


def test_without_script_everything_can_be_done(shop, desk):
    page = desk(shop.ada, java_script_enabled=False)
    page.goto(url(shop.queue[0]))
    page.get_by_role("link", name="Yes, go ahead").click()
    expect(page.get_by_label("Your answer")).to_have_value("Approved. Go ahead.")
    page.get_by_role("button", name="Resolve and wake").click()
    expect(page.locator(".given")).to_contain_text("Approved. Go ahead.")
    page.goto("/admin/inbox/item/")
    page.locator('input[name="id"]').first.check()
    page.get_by_role("button", name="Answer the selected together").click()
    page.get_by_label("One answer for all of them").fill("Yes.")
    page.get_by_role("button", name="Answer 1 requests").click()
    expect(page.locator("h1")).to_have_text("1 resolved")


def test_somebody_else_was_first(shop, desk):
    ada, sam = desk(shop.ada), desk(shop.sam)
    for page in (ada, sam):
        page.goto(url(shop.refund.item))
    sam.get_by_label("Your answer").fill("No, the bag was fresh.")
    sam.get_by_role("button", name="Resolve and wake").click()
    expect(sam.locator(".given")).to_be_visible()
    ada.get_by_label("Your answer").fill("Yes, refund it.\nAnd send a new bag.")
    ada.get_by_role("button", name="Resolve and wake").click()
    expect(ada.locator("h1")).to_have_text(f"Request {shop.refund.item.pk} was closed before you")
    expect(ada.locator(".conflict")).to_contain_text("Answered by sam in the admin")
    expect(ada.locator(".conflict")).to_contain_text("No, the bag was fresh.")
    expect(ada.get_by_label("What you typed, to copy")).to_have_value("Yes, refund it.\nAnd send a new bag.")
    shoot(ada, "conflict")
    ada.get_by_role("link", name="Next request").click()
    expect(ada.get_by_label("Your answer")).to_have_value("")


def test_a_double_click_is_one_answer(shop, desk):
    page = desk(shop.ada)
    page.goto(url(shop.refund.item))
    page.get_by_label("Your answer").fill("Yes.")
    page.get_by_role("button", name="Resolve and wake").dblclick()
    expect(page.locator(".given")).to_contain_text("Yes.")
    assert LogEntry.objects.filter(object_id=str(shop.refund.item.pk)).count() == 1


def test_back_and_send_again_is_harmless(shop, desk):
    page = desk(shop.ada)
    page.goto(url(shop.refund.item))
    page.get_by_label("Your answer").fill("Yes.")
    page.get_by_role("button", name="Resolve and wake").click()
    expect(page.locator(".given")).to_be_visible()
    page.go_back()
    if page.get_by_label("Your answer").count():  # the browser kept the page as it was left
        page.get_by_label("Your answer").fill("Yes.")
        page.get_by_role("button", name="Resolve and wake").click()
    expect(page.locator(".given")).to_contain_text("Yes.")
    assert LogEntry.objects.filter(object_id=str(shop.refund.item.pk)).count() == 1


def test_a_draft_outlives_a_session_that_ended(shop, desk):
    page = desk(shop.ada)
    page.goto(url(shop.refund.item))
    page.get_by_label("Your answer").type("A long and careful answer.")
    cookies = page.context.cookies()
    page.context.clear_cookies()
    page.reload()
    assert "/admin/login/" in page.url
    page.context.add_cookies(cookies)
    page.goto(url(shop.refund.item))
    expect(page.get_by_label("Your answer")).to_have_value("A long and careful answer.")
    page.get_by_role("button", name="Resolve and wake").click()
    expect(page.locator(".given")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0


def test_new_requests_are_hinted_at(shop, desk):
    page = desk(shop.ada)
    page.goto("/admin/inbox/item/")
    hint = page.locator("#new-hint a")
    expect(hint).to_be_hidden()
    world.pending(shop.box, "approval:gift", "A gift for a regular?")
    world.pending(shop.box, "restock:tea", "Not for her.")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(hint).to_have_text("1 new request")
    hint.click()
    assert page.get_by_text("A gift for a regular?").count() == 1


def test_cancel_with_a_reason(shop, desk):
    page = desk(shop.ada)
    page.goto(url(shop.refund.item))
    page.get_by_text("Cancel it with a reason").click()
    page.get_by_label("The agent reads that nobody will answer").fill("The order never existed.")
    page.get_by_role("button", name="Cancel the request").click()
    expect(page.locator(".given")).to_contain_text("The order never existed.")
    assert Item.objects.get(pk=shop.refund.item.pk).outcome == "cancelled"


def test_one_answer_for_many(shop, desk):
    page = desk(shop.ada)
    page.goto("/admin/inbox/item/?tag=approval:*")
    page.get_by_label("Select all requests on this page").check()
    page.get_by_role("button", name="Answer the selected together").click()
    answers.resolve_as(shop.sam, shop.queue[2].pk, "Sam was here.", via="admin")
    page.get_by_role("button", name="Yes, go ahead").click()
    page.get_by_role("button", name=re.compile("Answer 5 requests")).click()
    expect(page.locator("h1")).to_have_text("4 resolved, 1 already answered")
    shoot(page, "bulk-done")


def test_a_link_for_somebody_else(shop, desk, browser):
    page = desk(shop.ada)
    page.goto(url(shop.refund.item))
    page.get_by_text("Let somebody else answer by a link").click()
    page.get_by_role("button", name="Make a link").click()
    address = page.get_by_label("Copy it now").input_value()
    shoot(page, "link-made")
    assert "/r/" in address
    token = address.rsplit("/", 1)[1]
    client = Client()
    assert client.get(f"/r/{token}").status_code == 200
    page.get_by_role("link", name="Back to the request").click()
    page.goto(reverse("admin:inbox_resolvelink_change", args=[ResolveLink.objects.get().pk]))
    page.get_by_role("link", name="Revoke this link").click()
    page.get_by_role("button", name="Revoke the link").click()
    expect(page.locator(".messagelist")).to_contain_text("revoked")
    assert client.get(f"/r/{token}").status_code == 410


def test_a_tag_group_is_tried_before_it_is_saved(shop, desk):
    page = desk(shop.olga)
    page.goto("/admin/inbox/taggroup/add/")
    page.get_by_label("Pattern").fill("question:*")
    page.get_by_label("store").check()
    page.get_by_label("A tag to try it on").fill("question:hours")
    page.get_by_role("button", name="Try it").click()
    expect(page.locator(".trial")).to_contain_text("question:*: store")
    expect(page.locator(".trial")).to_contain_text("bob, and superusers")
    shoot(page, "tag-group-tried")
    assert not TagGroup.objects.filter(pattern="question:*").exists()
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".messagelist")).to_contain_text("question:* is answered by store")
    ada = desk(shop.ada)
    ada.goto("/admin/inbox/item/")
    assert ada.get_by_text("Are we open on the 24th?").count() == 0


def test_a_key_is_shown_once(shop, desk):
    page = desk(shop.olga)
    page.goto("/admin/inbox/apikey/add/")
    page.get_by_label("User").fill("olga")
    page.get_by_label("Name").fill("till")
    page.get_by_role("button", name="Issue the key").click()
    key = page.get_by_label("Copy it now").input_value()
    shoot(page, "key-shown")
    page.get_by_role("link", name="All keys").click()
    expect(page.locator("#result_list")).to_contain_text(key[:12])
    assert key not in page.content()


def test_what_models_and_people_write_stays_text(shop, desk, live_server):
    asked = []
    text = (
        '<img src="/evil.png" onerror="document.title=1"><script>document.title=2</script>'
        '<a href="javascript:document.title=3">x</a> ![x](/evil2.png) <style>body{display:none}</style>'
    )
    item = world.pending(shop.box, "approval:x", text)
    page = desk(shop.ada)
    page.on("request", lambda request: asked.append(request.url))
    for address in ("/admin/inbox/item/", url(item), f"/admin/inbox/item/bulk/?id={item.pk}"):
        page.goto(address)
        expect(page.get_by_text('<img src="/evil.png"').first).to_be_visible()
        assert page.title() not in "123"
    page.goto(url(item))
    page.get_by_label("Your answer").fill(text)  # the preview shows it as text too
    expect(page.locator("#letter-answer")).to_have_text(text)
    assert not [one for one in asked if "evil" in one]
