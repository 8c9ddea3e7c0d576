"""Every address of the admin x every kind of caller x method, against matrix.txt. An address without a line there fails.

After a deliberate change: `GLOVE_TEST_WRITE_MATRIX=1 pytest tests/admin/test_matrix.py`, and read the difference line by line.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group
from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction
from django.db.models import Model
from django.test import Client
from django.urls import URLPattern, reverse
from django.utils import timezone

from agents.models import BudgetRaise, ModelCall, Permission, ToolCall
from inbox.models import DeclaredSchedule, Notification, ResolverRun, TagGroup
from inbox.services import answers, rights
from inbox.services.keys import create_key
from mesh.models import Delivery, Message, Peer, StoppedChain
from tests.admin import world

TABLE = Path(__file__).with_name("matrix.txt")
CALLERS = ("anonymous", "customer", "nobody", "viewer", "resolver", "stranger", "auditor", "operator", "superuser")
LEGEND = """\
# What each caller is answered. `nobody` is staff without a right; viewer, resolver and auditor are in the group billing, to
# whom the request of these addresses belongs; `stranger` answers requests in another group.
"""


def patterns(found=None, path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Name and arguments of every address of the admin."""
    for one in admin.site.get_urls() if found is None else found:
        if isinstance(one, URLPattern):
            yield (
                one.name or f"(unnamed) {path}{one.pattern}",
                list(one.pattern.converters) or list(one.pattern.regex.groupindex),
            )
        else:
            yield from patterns(one.url_patterns, f"{path}{one.pattern}")


NAMES = dict(patterns())


def mesh_rows(shop: world.Company) -> dict[str, Model]:
    """A message between two peers that could not be delivered."""
    ids = [f"01990000-0000-7000-8000-00000000000{digit}" for digit in (1, 2)]
    peers = [
        Peer.objects.get_or_create(mailbox=box)[0] for box in (shop.box, world.mailbox("planner", agent="planner"))
    ]
    message = Message.objects.create(id=ids[0], root=ids[0], kind="direct", sender=peers[0], content="Hello.")
    return {
        "peer": peers[0],
        "message": message,
        "delivery": Delivery.objects.create(
            message=message, sender=peers[0], recipient=peers[1], status="dead", reason="no such peer"
        ),
        "stoppedchain": StoppedChain.objects.create(root=ids[1], sender=peers[0], content="And so on."),
    }


def used_rows(shop) -> dict[str, object]:
    """A call in doubt, a model call, a raised budget."""
    turn, conversation = shop.refund.turn, shop.refund.conversation
    message = conversation.messages.first()
    at = timezone.now()
    return {
        "toolcall": ToolCall.objects.create(
            turn=turn,
            message=message,
            position=90,
            call_id="doubt",
            name="refund",
            input="{}",
            status="unknown",
            started_at=at,
            finished_at=at,
        ),
        "modelcall": ModelCall.objects.create(turn=turn, conversation=conversation, agent="concierge", day=at.date()),
        "budgetraise": BudgetRaise.objects.create(agent="concierge", day=at.date(), tokens=1, raised_by=shop.sam),
    }


class Site:
    """Rows for every address, and a browser for every caller."""

    def __init__(self) -> None:
        self.shop = shop = world.company()
        tess = world.person("tess", "auditor", "billing")
        people = (None, shop.carl, shop.nina, shop.vera, shop.ada, shop.bob, tess, shop.olga, shop.sam)
        self.callers = dict(zip(CALLERS, people, strict=True))
        item = shop.refund.item
        link, _ = answers.make_link(shop.ada, item.pk)
        key, _ = create_key(shop.nina, "till")
        now = timezone.now()
        task = apps.get_model("django_celery_beat", "PeriodicTask").objects.create(
            name="t",
            task="t",
            interval=apps.get_model("django_celery_beat", "IntervalSchedule").objects.create(every=9),
        )
        self.rows = {
            "item": item,
            "mailbox": shop.box,
            "resolvelink": link,
            "apikey": key,
            "taggroup": TagGroup.objects.first(),
            "cannedanswer": rights.set_canned_answer("*", "Yes", "Yes."),
            "notification": Notification.objects.create(item=item, notifier="email", not_before=now),
            "resolverrun": ResolverRun.objects.create(name="r", instant=now),
            "declaredschedule": DeclaredSchedule.objects.create(name="r", task_id=task.pk, declared="every 9 s"),
            "conversation": shop.refund.conversation,
            "turn": shop.refund.turn,
            "permission": Permission.objects.create(
                agent="concierge", tool="refund", mailbox=shop.box, decision="grant", scope="any"
            ),
            **used_rows(shop),
            **mesh_rows(shop),
            "user": shop.nina,
            "group": Group.objects.get(name="viewer"),
        }

    def client(self, caller: str) -> Client:
        client = Client(raise_request_exception=False)
        if user := self.callers[caller]:
            client.force_login(user)
        return client

    def address(self, name: str) -> str:
        if name.startswith("(unnamed) "):
            path = name.removeprefix("(unnamed) ")
            model = path.split("/")[1] if path.count("/") > 2 else ""
            return f"/admin/{path.split('<')[0]}{self.pk(model)}/" if model else "/admin/no/such/page"
        values: list[object] = []
        for argument in NAMES[name]:
            if argument == "app_label":
                values.append("inbox")
            elif argument == "content_type_id":
                values.append(ContentType.objects.get_for_model(type(self.rows["item"])).pk)
            else:
                values.append(self.pk(name.split("_")[1] if name != "view_on_site" else "item"))
        return reverse(f"admin:{name}", args=values)

    def pk(self, model: str) -> object:
        return self.rows[model].pk if model in self.rows else 1

    def ask(self, client: Client, method: str, name: str, **extra: object) -> int:
        """The status of one request, whose effect is undone."""
        with transaction.atomic():
            response = client.generic(method, self.address(name), **extra)
            if response.streaming:
                b"".join(response.streaming_content)
            transaction.set_rollback(True)
        return response.status_code


@pytest.fixture
def site(db: None) -> Site:
    return Site()


def fingerprint() -> dict[str, str]:
    """What every table holds."""
    found = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)} ORDER BY 1")
            found[table] = hashlib.sha256(repr(cursor.fetchall()).encode()).hexdigest()
    return found


def table() -> dict[tuple[str, str], list[int]]:
    lines = [line.split() for line in TABLE.read_text().splitlines() if line and line[0] != "#"]
    return {(" ".join(words[:-10]), words[-10]): [int(word) for word in words[-9:]] for words in lines}


def measured(site: Site) -> dict[tuple[str, str], list[int]]:
    clients = {caller: site.client(caller) for caller in CALLERS}
    form = {"content_type": "application/x-www-form-urlencoded"}
    found = {}
    for name in sorted(NAMES):
        found[name, "GET"] = [site.ask(clients[caller], "GET", name) for caller in CALLERS]
        found[name, "POST"] = [site.ask(clients[caller], "POST", name, **form) for caller in CALLERS]
        # Signed out by its own test of itself.
        if name == "logout":
            clients = {caller: site.client(caller) for caller in CALLERS}
    return found


def test_every_address_has_a_line():
    assert {name for name, _ in table()} == set(NAMES)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.one_database
def test_each_caller_is_answered_as_the_table_says(site):
    found = measured(site)
    if os.environ.get("GLOVE_TEST_WRITE_MATRIX") == "1":
        head = f"#{'address':<43} {'':<5}" + "".join(f"{caller:>10}" for caller in CALLERS)
        rows = [
            f"{name:<44} {method:<5}" + "".join(f"{code:>10}" for code in codes)
            for (name, method), codes in found.items()
        ]
        TABLE.write_text(LEGEND + "\n".join([head, *rows]) + "\n")
    expected = table()
    assert {key: codes for key, codes in found.items() if codes != expected.get(key)} == {}


# What the table must hold whatever else it says, so that a careless rewrite of it fails.
EDITED = ("user", "group", "taggroup", "cannedanswer", "apikey", "permission", "peer", "budgetraise")
OPEN_TO_ALL = {"login", "logout", "jsi18n"}
OPEN_TO_STAFF = {*OPEN_TO_ALL, "index", "password_change", "password_change_done", "(unnamed) (?P<url>.*)$", "app_list"}


def test_outsiders_are_let_into_nothing():
    for (name, method), codes in table().items():
        if name not in OPEN_TO_ALL:
            assert codes[:2] == [302, 302], (name, method)


def test_staff_without_rights_see_nothing():
    for (name, method), codes in table().items():
        if name not in OPEN_TO_STAFF and not name.startswith("(unnamed)"):
            assert codes[2] in (302, 403, 404, 405), (name, method)


def test_a_stranger_to_the_group_finds_none_of_its_rows():
    stranger = CALLERS.index("stranger")
    of_the_item = ("inbox_item", "inbox_resolvelink", "inbox_notification")
    for (name, method), codes in table().items():
        if name.startswith(of_the_item) and name.endswith(("_change", "_history", "_revoke", "_delete")):
            assert codes[stranger] in (403, 404, 405), (name, method)


def test_nobody_adds_or_deletes_what_services_write():
    for (name, method), codes in table().items():
        model = name.split("_")[1] if "_" in name else ""
        if name.endswith(("_add", "_delete")) and model not in EDITED:
            assert set(codes[2:]) <= {403, 405}, (name, method)


def test_no_error():
    assert all(code < 500 for codes in table().values() for code in codes)


@pytest.mark.parametrize(
    "method",
    [
        "GET",
        *(pytest.param(name, marks=pytest.mark.one_database) for name in ("HEAD", "OPTIONS", "PUT", "PATCH", "DELETE")),
    ],
)
def test_only_post_changes_a_row(site, method):
    """Every address, by the one who may do everything; what reads a page, twice."""
    client = site.client("superuser")
    before = fingerprint()
    for name in sorted(set(NAMES) - {"logout"}):
        for _ in range(2 if method in ("GET", "HEAD") else 1):
            response = client.generic(method, site.address(name))
            if response.streaming:
                b"".join(response.streaming_content)
    after = fingerprint()
    assert [table for table in after if after[table] != before[table]] == []


def test_a_post_without_its_token_changes_nothing(site):
    client = Client(enforce_csrf_checks=True)
    client.force_login(site.callers["superuser"])
    before = fingerprint()
    for name in sorted(NAMES):
        for headers in ({}, {"origin": "https://evil.example"}):
            response = client.post(
                site.address(name), {"post": "yes", "action": "resolve", "response": "x"}, headers=headers
            )
            # The catch-all and the redirect of a shortened address have no form behind them.
            assert response.status_code == 403 or name.startswith("(unnamed)"), name
    assert fingerprint() == before
