"""Exports: what a spreadsheet would compute is made harmless, numbers stay numbers, only what one may see, streamed."""

import asyncio
import csv
import io
import json

import pytest
from django.db import connection
from django.test import AsyncClient
from django.test.utils import CaptureQueriesContext

from inbox.admin import exports
from tests.admin import world

EXPORT = "/admin/inbox/item/export/"


def read(response) -> list[dict]:
    return list(csv.DictReader(io.StringIO(b"".join(response.streaming_content).decode())))


@pytest.mark.parametrize(
    "text",
    [
        "=HYPERLINK(1)",
        "+1",
        "-1",
        "@x",
        "\tx",
        "\rx",
        "\nx",
        "  =1",
        "\u200b=1",
        "\ufeff=1",
        "\xa0@x",
        "＝1",
        "＋1",
        "－1",
        "＠x",
    ],
)
def test_what_could_be_a_formula_gets_an_apostrophe(text):
    assert exports.safe(text) == f"'{text}"


@pytest.mark.parametrize("value", ["x=1", "1", "a\t=b", "'=1", "", "hello", 0, -1, 3.5])
def test_the_rest_stays_as_it_is(value):
    assert exports.safe(value) == value


def test_a_csv_of_the_queue(shop, sign_in):
    item = world.pending(shop.box, "question:x", '=HYPERLINK("http://x","y")\nsecond, line')
    response = sign_in(shop.ada).get(EXPORT + "?tab=mine")
    assert response["Content-Type"].startswith("text/csv")
    assert response["Content-Disposition"].startswith('attachment; filename="requests-')
    rows = {row["id"]: row for row in read(response)}
    assert list(rows) == [str(shop.refund.item.pk), str(shop.note.pk), str(item.pk)]
    assert rows[str(item.pk)]["request"] == '\'=HYPERLINK("http://x","y")\nsecond, line'
    assert rows[str(shop.refund.item.pk)]["blocking"] == "yes"


def test_a_json_of_the_queue_is_unchanged_text(shop, sign_in):
    item = world.pending(shop.box, "question:x", "=1+1 ü")
    response = sign_in(shop.ada).get(EXPORT + "?tab=mine&format=json")
    rows = {row["id"]: row for row in json.loads(b"".join(response.streaming_content))}
    assert rows[item.pk]["request"] == "=1+1 ü"
    assert rows[item.pk]["blocking"] is False


def test_an_empty_export(shop, sign_in):
    assert json.loads(b"".join(sign_in(shop.ada).get(EXPORT + "?q=nothing&format=json").streaming_content)) == []
    assert read(sign_in(shop.ada).get(EXPORT + "?q=nothing")) == []


def test_only_what_one_may_see(shop, sign_in):
    rows = read(sign_in(shop.bob).get(EXPORT + "?tab=all"))
    assert {row["tag"] for row in rows} == {"restock:house", "question:hours"}


def test_another_format_is_refused(shop, sign_in):
    assert sign_in(shop.ada).get(EXPORT + "?format=xml").status_code == 400


def test_it_is_read_in_stretches(shop, sign_in, monkeypatch):
    monkeypatch.setattr(exports, "BATCH", 10)
    for index in range(25):
        world.pending(shop.box, "question:x", f"{index}")
    response = sign_in(shop.sam).get(EXPORT + "?tab=all")
    with CaptureQueriesContext(connection) as captured:
        parts = list(response.streaming_content)
    assert len(captured) == 4  # 10, 10, 8 and none
    assert len(parts) == 4  # the head and three stretches
    assert all("LIMIT" in query["sql"] for query in captured.captured_queries)


@pytest.mark.django_db(transaction=True)
def test_the_same_under_asgi(sign_in):
    shop = world.company()
    for index in range(1200):
        world.pending(shop.box, "question:x", f"={index}")

    async def fetch() -> bytes:
        client = AsyncClient()
        await client.aforce_login(shop.sam)
        response = await client.get(EXPORT + "?tab=all")
        assert response.is_async
        return b"".join([part async for part in response.streaming_content])

    rows = list(csv.DictReader(io.StringIO(asyncio.run(fetch()).decode())))
    assert len(rows) == 1203


@pytest.mark.parametrize(
    "address",
    ["inbox/mailbox", "inbox/resolvelink", "inbox/notification", "inbox/resolverrun", "agents/conversation", "agents/turn",
     "agents/permission"],
)  # fmt: skip
def test_the_trail_can_be_exported_too(shop, sign_in, address):
    for kind in ("csv", "json"):
        response = sign_in(shop.sam).get(f"/admin/{address}/export/?format={kind}")
        assert response.status_code == 200
        assert b"".join(response.streaming_content)
    assert sign_in(shop.nina).get(f"/admin/{address}/export/").status_code == 403
