"""Every page of the desk in a real browser, wide and narrow, light and dark: nothing is blocked, nothing runs over the edge.

With GLOVE_TEST_PICTURES=1 the pages are also written to docs/img/desk, for docs/desk.md.
"""

import pytest
from django.test import Client
from django.urls import reverse

from inbox.models import CannedAnswer, ResolverRun, TagGroup
from inbox.services import answers
from inbox.services.keys import create_key
from tests.admin import world
from tests.admin.pictures import shoot

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def shop(transactional_db):
    shop = world.company()
    shop.queue = world.busy(shop)
    return shop


def pages(shop):
    """Name of the picture, who looks, address."""
    closed = world.talk(shop.box, "Refund 4.00 for a cup that broke?", blocking=True)
    answers.resolve_as(shop.ada, closed.item.pk, "Yes, of course. Tell her that we are sorry.", via="admin")
    link, _ = answers.make_link(shop.ada, shop.refund.item.pk)
    key, _ = create_key(shop.olga, "till", ["read", "resolve"])
    schedule = declared_schedule()
    ids = "&".join(f"id={item.pk}" for item in shop.queue[:3])

    def item(row):
        return reverse("admin:inbox_item_change", args=[row.pk])

    def at(name, *args):
        return reverse(f"admin:{name}", args=args)

    return [
        ("home", shop.ada, at("index")),
        ("queue", shop.ada, at("inbox_item_changelist")),
        ("queue-filtered", shop.ada, at("inbox_item_changelist") + "?tab=pending&tag=approval:*"),
        ("queue-closed", shop.ada, at("inbox_item_changelist") + "?tab=resolved"),
        ("answer", shop.ada, item(shop.refund.item)),
        ("answer-hidden", shop.ada, item(shop.queue[1])),
        ("answer-closed", shop.ada, item(closed.item)),
        ("bulk", shop.ada, at("inbox_item_bulk") + "?" + ids),
        ("tell", shop.olga, at("inbox_item_drop")),
        ("tag-groups", shop.olga, at("inbox_taggroup_changelist")),
        ("tag-group", shop.olga, at("inbox_taggroup_change", TagGroup.objects.first().pk)),
        ("canned-answer", shop.olga, at("inbox_cannedanswer_change", CannedAnswer.objects.first().pk)),
        ("mailbox", shop.olga, at("inbox_mailbox_change", shop.box.pk)),
        ("conversations", shop.olga, at("agents_conversation_changelist")),
        ("conversation", shop.olga, at("agents_conversation_change", shop.refund.conversation.pk)),
        ("turn", shop.olga, at("agents_turn_change", shop.refund.turn.pk)),
        ("calls", shop.olga, at("agents_toolcall_changelist") + "?outcome=all"),
        ("permission", shop.olga, at("agents_permission_add")),
        ("keys", shop.olga, at("inbox_apikey_changelist")),
        ("key", shop.olga, at("inbox_apikey_change", key.pk)),
        ("key-new", shop.olga, at("inbox_apikey_add")),
        ("link", shop.ada, at("inbox_resolvelink_change", link.pk)),
        ("schedule", shop.olga, at("inbox_declaredschedule_change", schedule.pk)),
        ("schedule-change", shop.olga, at("inbox_declaredschedule_when", schedule.pk)),
    ]


def declared_schedule():
    from inbox import declare, instants
    from inbox.models import DeclaredSchedule
    from inbox.services import schedules

    declare.resolvers.setdefault(
        "restocked", declare.Resolver("restocked", "restock:*", instants.Every(300), lambda item: None)
    )
    schedules.sync_schedules()
    now = world.timezone.now()
    ResolverRun.objects.create(name="restocked", instant=now, finished_at=now, looked_at=4, resolved=1)
    ResolverRun.objects.create(
        name="restocked", instant=now.replace(year=2020), finished_at=now, looked_at=4, failed=1,
        error="item 7: FileNotFoundError: [Errno 2] No such file or directory: 'stock.csv'",
    )  # fmt: skip
    return DeclaredSchedule.objects.get(name="restocked")


def cookie_of(user, url):
    client = Client()
    client.force_login(user)
    return {"name": "sessionid", "value": client.cookies["sessionid"].value, "url": url}


@pytest.mark.timeout(300)
def test_every_page_fits_and_runs_under_the_policy(shop, live_server, browser):
    faults = []
    for name, user, address in pages(shop):
        context = browser.new_context(base_url=live_server.url, viewport={"width": 1280, "height": 900})
        context.add_cookies([cookie_of(user, live_server.url)])
        page = context.new_page()
        page.on("console", lambda message, name=name: message.type == "error" and faults.append((name, message.text)))
        page.on("pageerror", lambda error, name=name: faults.append((name, str(error))))
        assert page.goto(address).status == 200, name
        shoot(page, name)
        context.close()
    assert not faults
