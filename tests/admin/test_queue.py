"""The queue: whose requests, in which order, narrowed how, and that no page counts or reads the whole table."""

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from inbox.admin import look as looking
from inbox.models import Item
from inbox.services import answers
from tests.admin import world

QUEUE = "/admin/inbox/item/"


def shown(response) -> list[int]:
    return [row.pk for row in response.context["page"].rows]


def test_it_opens_on_what_this_person_may_answer(shop, sign_in):
    assert shown(sign_in(shop.ada).get(QUEUE)) == [shop.refund.item.pk, shop.note.pk]
    assert shown(sign_in(shop.bob).get(QUEUE)) == [shop.restock.pk, shop.note.pk]
    assert shown(sign_in(shop.sam).get(QUEUE)) == [shop.refund.item.pk, shop.restock.pk, shop.note.pk]


def test_what_she_may_see_but_not_answer_is_not_hers_to_answer(shop, sign_in):
    """Her own mailbox's request, which another group answers."""
    own = world.pending(world.mailbox("concierge/ada", shop.ada), "restock:cups", "Cups?")
    client = sign_in(shop.ada)
    assert own.pk not in shown(client.get(QUEUE))
    assert own.pk in shown(client.get(QUEUE + "?tab=pending"))


def test_who_only_looks_begins_with_all_that_is_pending(shop, sign_in):
    response = sign_in(shop.vera).get(QUEUE)
    assert shown(response) == [shop.refund.item.pk, shop.note.pk]
    assert "To answer" not in response.content.decode()


def test_the_most_overdue_comes_first_then_the_soonest_due_then_the_oldest(shop, sign_in):
    late = world.due(world.pending(shop.box, "a"), -5)
    later = world.due(world.pending(shop.box, "b"), -50)
    soon = world.due(world.pending(shop.box, "c"), 1)
    assert shown(sign_in(shop.ada).get(QUEUE)) == [later.pk, late.pk, soon.pk, shop.refund.item.pk, shop.note.pk]


def test_pages_follow_each_other_without_a_gap(shop, sign_in, monkeypatch):
    monkeypatch.setattr(looking.Look.page, "__defaults__", (3,))
    for index in range(7):
        item = world.pending(shop.box, "approval:many", f"{index}")
        if index % 2:
            world.due(item, index - 3)
    same = Item.objects.filter(request__in=["1", "3"])
    same.update(due_at=same[0].due_at)  # two at one moment: the id decides
    client, seen, query = sign_in(shop.ada), [], ""
    while True:
        response = client.get(QUEUE + query)
        seen += shown(response)
        query = response.context["next_url"]
        if not query:
            break
    wanted = Item.objects.filter(tag__in=["approval:many", "approval:refund", "question:hours"])
    ordered = sorted(wanted, key=lambda item: (item.due_at is None, item.due_at or item.created_at, item.pk))
    dateless = [item.pk for item in ordered if item.due_at is None]
    dated = [item.pk for item in ordered if item.due_at is not None]
    assert seen == dated + sorted(dateless)


def test_other_states_are_one_click_away_newest_first(shop, sign_in):
    first, second = world.answered(shop.box, tag="q1"), world.answered(shop.box, tag="q2")
    client = sign_in(shop.ada)
    assert shown(client.get(QUEUE + "?tab=resolved")) == [second.pk, first.pk]
    assert shown(client.get(QUEUE + "?tab=consumed")) == []
    assert shown(client.get(QUEUE + "?tab=all"))[:2] == [second.pk, first.pk]
    assert shown(client.get(f"{QUEUE}?tab=resolved&after={second.pk}")) == [first.pk]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("tag=approval:refund", ["refund"]),
        ("tag=approval:*", ["refund"]),
        ("tag=approval", []),
        ("blocking=yes", ["refund"]),
        ("blocking=no", ["note", "restock"]),
        ("overdue=on", ["note"]),
        ("agent=concierge", ["note", "refund", "restock"]),
        ("q=STALE", ["refund"]),
        ("q=nothing", []),
        ("tag=*:h*", ["note", "restock"]),
    ],
)
def test_filters(shop, sign_in, query, expected):
    world.due(shop.note, -1)
    named = {"refund": shop.refund.item.pk, "restock": shop.restock.pk, "note": shop.note.pk}
    assert shown(sign_in(shop.sam).get(f"{QUEUE}?{query}")) == [named[name] for name in expected]


def test_the_group_filter_narrows_to_what_a_group_answers(shop, sign_in):
    from django.contrib.auth.models import Group

    billing, store = Group.objects.get(name="billing"), Group.objects.get(name="store")
    assert shown(sign_in(shop.sam).get(f"{QUEUE}?group={store.pk}")) == [shop.restock.pk]
    assert shown(sign_in(shop.ada).get(f"{QUEUE}?group={billing.pk}")) == [shop.refund.item.pk]


def test_choices_name_only_ones_own_groups(shop, sign_in):
    response = sign_in(shop.ada).get(QUEUE)
    choices = [label for _, label in response.context["look"].form.fields["group"].choices]
    assert choices == ["Any", "billing"]
    from django.contrib.auth.models import Group

    foreign = Group.objects.get(name="store").pk
    assert shown(sign_in(shop.ada).get(f"{QUEUE}?group={foreign}")) == []


def test_a_request_is_found_by_its_number_and_by_its_answer(shop, sign_in):
    item = world.answered(shop.box, "Blue bags only.", tag="q1")
    client = sign_in(shop.ada)
    assert shown(client.get(f"{QUEUE}?q=%23{item.pk}")) == [item.pk]
    assert shown(client.get(f"{QUEUE}?q=%23{shop.restock.pk}")) == []  # for the group store
    assert shown(client.get(f"{QUEUE}?tab=all&q=blue+bags")) == [item.pk]


def test_a_search_reads_a_stretch_at_a_time_and_goes_on(shop, sign_in, monkeypatch):
    monkeypatch.setattr(looking, "WINDOW", 3)
    wanted = [world.pending(shop.box, "q", "needle" if index in (1, 5) else "hay") for index in range(7)]
    client, found, query, steps = sign_in(shop.sam), [], "?q=needle", 0
    while query:
        response = client.get(QUEUE + query)
        found += shown(response)
        query = response.context["next_url"]
        steps += 1
    assert found == [wanted[1].pk, wanted[5].pk]
    assert steps > 2


@pytest.mark.parametrize(
    "query",
    [
        "after=x", "after=_", "after=99999999999999999999", "after=2020-13-45_3", "after=2020-01-01T00:00:00_3", "after=%00",
        "tab=nonsense", "tag=%F0%9F%98%80", "tag=%00", "q=%00", "q=%23" + "9" * 40, "group=x", "group=999999", "agent=nobody",
        "blocking=maybe", "q=" + "x" * 500, "after=9999-12-31T23:59:59.999999+00:00_1", "o=-1", "_facets=True", "all=",
        "mailbox__owner__password__startswith=pbkdf2", "e=1", "p=99", "q=%25_", "q=%5C",
    ],
)  # fmt: skip
def test_nonsense_in_the_address_is_no_error(shop, sign_in, query):
    assert sign_in(shop.ada).get(f"{QUEUE}?{query}").status_code == 200


def test_the_hint_counts_what_came_since(shop, sign_in):
    client = sign_in(shop.ada)
    address = client.get(QUEUE).context["new_url"]
    assert client.get(address).json() == {"new": 0}
    world.pending(shop.box, "approval:gift")
    world.pending(shop.box, "restock:tea")  # not hers
    assert client.get(address).json() == {"new": 1}
    for index in range(looking.HINT_MOST + 5):
        world.pending(shop.box, "approval:gift", f"{index}")
    assert client.get(address).json() == {"new": "99+"}
    assert client.get(reverse("admin:inbox_item_new") + "?since=x").json() == {"new": 0}


def test_the_number_of_queries_does_not_grow(shop, sign_in):
    def queries(client, address):
        client.get(address)
        with CaptureQueriesContext(
            connection,
        ) as captured:
            assert client.get(address).status_code == 200
        assert not any(
            "COUNT(*)" in query["sql"] and "LIMIT" not in query["sql"] for query in captured.captured_queries
        )
        return len(captured)

    client = sign_in(shop.ada)
    few = queries(client, QUEUE), queries(client, QUEUE + "?q=refund"), queries(client, QUEUE + "?tab=all")
    for index in range(60):
        world.due(world.pending(world.mailbox(f"concierge/x{index}"), "approval:x", f"{index}"), index - 30)
    many = queries(client, QUEUE), queries(client, QUEUE + "?q=refund"), queries(client, QUEUE + "?tab=all")
    assert many == few
    assert max(few) <= 14


def test_closed_by_somebody_else_meanwhile_it_is_gone_from_the_queue(shop, sign_in):
    answers.resolve_as(shop.sam, shop.refund.item.pk, "Yes", via="admin")
    assert shown(sign_in(shop.ada).get(QUEUE)) == [shop.note.pk]


def test_people_and_models_write_no_html(shop, sign_in):
    text = "<img src=x onerror=alert(1)> [x](javascript:alert(1)) ![](http://tracker/x.png) {{ 7|add:7 }}"
    item = world.pending(shop.box, "question:x", text)
    for address in (QUEUE, reverse("admin:inbox_item_change", args=[item.pk]), f"{QUEUE}bulk/?id={item.pk}"):
        page = sign_in(shop.ada).get(address).content.decode()
        assert "&lt;img src=x onerror=alert(1)&gt;" in page
        assert "<img src=x" not in page
        assert 'href="javascript:' not in page
        assert "14" not in page.split("add:7")[0][-20:]


def test_hidden_characters_are_marked_and_counted(shop, sign_in):
    item = world.pending(shop.box, "question:x", "Refund 10\u202e0001\u202c \U000e0041\U000e0042")
    page = sign_in(shop.ada).get(reverse("admin:inbox_item_change", args=[item.pk])).content.decode()
    assert "4 hidden characters are written out" in page
    assert "&lt;U+202E&gt;" in page
    assert "\u202e" not in page
    assert "\U000e0041" not in page
    queue = sign_in(shop.ada).get(QUEUE).content.decode()
    assert "4 hidden" in queue
    assert "\u202e" not in queue


def test_the_policy_forbids_inline_and_the_pages_have_none(shop, sign_in):
    import re

    for address in (QUEUE, reverse("admin:inbox_item_change", args=[shop.refund.item.pk]), reverse("admin:index")):
        response = sign_in(shop.ada).get(address)
        assert "unsafe-inline" not in response["Content-Security-Policy"]
        page = response.content.decode()
        assert not re.search(r"<script(?![^>]*\bsrc=)", page)
        assert not re.search(r"\son\w+=|\sstyle=|<style", page)


def test_export_follows_the_filters(shop, sign_in):
    response = sign_in(shop.ada).get(f"{QUEUE}export/?tab=mine&tag=approval:*&format=json")
    rows = json.loads(b"".join(response.streaming_content))
    assert [row["id"] for row in rows] == [shop.refund.item.pk]
