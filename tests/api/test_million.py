"""A page of the items' list costs one index look-up at a million items: no scan of the table, no count, the same few queries."""

import re
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext

from inbox.http.paging import make_cursor
from inbox.models import Item, TagGroup
from inbox.services.mailboxes import open_mailbox
from tests.api.kit import by_key, person
from tests.database import filling

ITEMS = 1_000_000
DESK = ("inbox.view_item", "inbox.resolve_item")

# Most are read long ago; one in ten thousand is pending. 2,000 mailboxes share them; the guarded tags are four fifths.
INSERT = f"""
INSERT INTO inbox_item (mailbox_id, tag, request, response, status, outcome, blocking, asked, wakes, rung, created_at,
                        resolved_at, resolved_by, resolved_via, consumed_at)
SELECT boxes.ids[1 + number %% 2000],
       CASE WHEN number %% 5 < 4 THEN 'approval:refund' ELSE 'restock:' || number %% 97 END,
       'Request ' || number, CASE WHEN fresh THEN '' ELSE 'Done.' END,
       CASE WHEN fresh THEN 'pending' ELSE 'consumed' END, CASE WHEN fresh THEN '' ELSE 'answered' END,
       fresh AND number %% 20000 = 0, true, true, true, now(), CASE WHEN fresh THEN NULL ELSE now() END, '',
       CASE WHEN fresh THEN '' ELSE 'api' END, CASE WHEN fresh THEN NULL ELSE now() END
FROM generate_series(1, {ITEMS}) number
CROSS JOIN LATERAL (SELECT number %% 10000 = 0 AS fresh) state
CROSS JOIN (SELECT array_agg(id ORDER BY id) AS ids FROM inbox_mailbox) boxes
"""

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]


@pytest.fixture
def crowd(db):
    """Ada owns one mailbox, Bea ten; staff in the group that answers most items, and outside it."""
    ada, bea = person("ada"), person("bea")
    open_mailbox("helper/ada", agent="helper", owner=ada)
    for number in range(10):
        open_mailbox(f"helper/bea/{number}", agent="helper", owner=bea)
    with filling("inbox_item", "inbox_mailbox") as cursor:
        cursor.execute(
            "INSERT INTO inbox_mailbox (address, agent, created_at)"
            " SELECT 'other/' || number, 'helper', now() FROM generate_series(1, 1989) number"
        )
        cursor.execute(INSERT, [])
    for pattern, group in (("approval:*", "finance"), ("payout:*", "bank")):
        TagGroup.objects.create(pattern=pattern).groups.add(Group.objects.get_or_create(name=group)[0])
    return SimpleNamespace(
        ada=ada,
        bea=bea,
        finance=person("finance", *DESK, groups=("finance",)),
        outside=person("outside", *DESK),
        root=person("root", is_superuser=True),
    )


QUERIES = (
    "",
    "limit=200",
    "status=pending",
    "status=consumed",
    "tag=approval:refund",
    "tag=restock:7",
    "tag=restock:7&status=pending",
    "mailbox=helper/ada",
    "mailbox=helper/ada&status=pending",
    "blocking=true",
    "blocking=false",
)


def page(caller, query):
    """A page of the list, and the statements that made it."""
    with CaptureQueriesContext(connection) as captured:
        response = caller.get(f"/inbox/items?{query}")
    assert response.status_code == 200
    return response.json(), [one["sql"] for one in captured]


def plan_of(sql):
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE) {sql}")
        return [line for (line,) in cursor.fetchall()]


def rows_read(plan):
    """How many items the plan read, those that it then passed over included."""
    read = 0
    for line in plan:
        if " on inbox_item" in line and (found := re.search(r"actual time=\S+ rows=(\d+) loops=(\d+)", line)):
            read += int(found[1]) * int(found[2])
        if passed := re.search(r"Rows Removed by (?:Filter|Index Recheck): (\d+)", line):
            read += int(passed[1])
    return read


def test_pages_of_a_million(crowd):
    """For every kind of reader and every filter, on the first page and a thousand items before the end; a long page costs as
    many queries as a short one. One test, since filling the table takes longer than all of its questions."""
    far = Item.objects.order_by("pk").values_list("pk", flat=True)[1000]
    for name in ("ada", "bea", "finance", "outside", "root"):
        caller = by_key(getattr(crowd, name))
        page(caller, "")  # content types and the like are looked up once
        for cursor in ("", f"&cursor={make_cursor('items', far)}"):
            check_filters(caller, cursor)
        (_, short), (found, long) = page(caller, "limit=1"), page(caller, "limit=200")
        assert len(short) == len(long)
        assert len(found["items"]) == 200


def check_filters(caller, cursor):
    for query in QUERIES:
        _, statements = page(caller, query + cursor)
        assert len(statements) <= 7, query
        assert not any("COUNT(" in sql for sql in statements), query
        for sql in (sql for sql in statements if 'FROM "inbox_item"' in sql):
            plan = plan_of(sql)
            assert not any("Seq Scan on inbox_item" in line for line in plan), (query, plan)
            # At worst all of Bea's five thousand, and each looked at twice: where the planner takes her mailboxes one by one.
            assert rows_read(plan) <= ITEMS / 100, (query, plan)
