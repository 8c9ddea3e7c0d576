"""Who may do what, for every route that the site's resolver knows under /api/v1, every kind of caller and every method.

A route without a row here fails; so does a method that a route answers without one.
"""

from dataclasses import dataclass, field

import pytest
from django.db import transaction
from django.urls import URLResolver, get_resolver

from agents.services import conversations, permissions
from inbox.services.keys import create_key
from inbox.services.mailboxes import open_mailbox
from mesh.services import joining, sending
from tests.api.kit import Caller, by_key, by_session, person, revoke_all_keys

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
ROOT = "api/v1/"
ANONYMOUS = ("nobody", "wrong_key", "revoked_key")
NO_ONE = dict.fromkeys(ANONYMOUS, 401)
EVERYONE = (
    *("owner", "owner_session", "stranger", "staff", "outside", "viewer", "finance"),
    *("reader", "writer", "decider", "dropper", "opener", "root", "scoped", "peer", "neighbour"),
)


@dataclass
class Row:
    """One call. Who is not named in `others` gets `everyone`; a key whose scopes do not hold `scope` gets 403."""

    path: str
    scope: str
    everyone: int
    body: dict | None = None
    others: dict[int, str] = field(default_factory=dict)

    def expected(self) -> dict[str, int]:
        named = {name: status for status, names in self.others.items() for name in names.split()}
        assert set(named) <= set(EVERYONE), set(named) - set(EVERYONE)
        return {**NO_ONE, **dict.fromkeys(EVERYONE, self.everyone), **named, "narrow": 403}


OWNER = "owner owner_session peer"
SEES_GUARDED = f"{OWNER} viewer finance root scoped"
SEES_FREE = f"{SEES_GUARDED} outside"
SEES_TALK = f"{OWNER} reader writer root scoped"
WRITES_TALK = f"{OWNER} writer root scoped"

MATRIX: dict[str, list[Row]] = {
    "GET agents": [Row("/agents", "read", 200)],
    "GET agents/<name>/usage": [
        Row("/agents/helper/usage", "read", 403, None, {200: "root scoped"}),
        Row("/agents/nobody/usage", "read", 404),
    ],
    "GET conversations": [Row("/conversations", "read", 200)],
    "POST conversations": [
        Row("/conversations", "converse", 201, {"agent": "helper"}),
        Row("/conversations", "converse", 404, {"agent": "nobody"}),
        Row("/conversations", "converse", 404, {"agent": "helper", "mailbox": "helper/ada"}, {201: OWNER}),
        Row(
            "/conversations",
            "converse",
            404,
            {"agent": "helper", "mailbox": "helper/ada/new"},
            {201: f"{OWNER} opener root"},
        ),
        Row("/conversations", "converse", 404, {"agent": "helper", "mailbox": "planner"}, {201: "opener root"}),
    ],
    "GET conversations/<id:conversation_id>": [Row("/conversations/{talk}", "read", 404, None, {200: SEES_TALK})],
    "POST conversations/<id:conversation_id>/close": [
        Row("/conversations/{talk}/close", "converse", 404, None, {200: WRITES_TALK, 403: "reader"})
    ],
    "POST conversations/<id:conversation_id>/cancel": [
        Row("/conversations/{talk}/cancel", "converse", 404, None, {200: WRITES_TALK, 403: "reader"})
    ],
    "POST conversations/<id:conversation_id>/retry": [
        Row("/conversations/{stopped}/retry", "converse", 404, None, {200: WRITES_TALK, 403: "reader"})
    ],
    "GET conversations/<id:conversation_id>/messages": [
        Row("/conversations/{talk}/messages", "read", 404, None, {200: SEES_TALK})
    ],
    "POST conversations/<id:conversation_id>/messages": [
        Row("/conversations/{talk}/messages", "converse", 404, {"text": "Hi."}, {202: WRITES_TALK, 403: "reader"})
    ],
    "GET conversations/<id:conversation_id>/turns": [
        Row("/conversations/{talk}/turns", "read", 404, None, {200: SEES_TALK})
    ],
    "GET conversations/<id:conversation_id>/usage": [
        Row("/conversations/{talk}/usage", "read", 404, None, {200: SEES_TALK})
    ],
    "GET conversations/<id:conversation_id>/tasks": [
        Row("/conversations/{talk}/tasks", "read", 404, None, {200: SEES_TALK})
    ],
    "GET permissions": [Row("/permissions", "read", 200)],
    "POST permissions/<id:permission_id>/revoke": [
        Row(
            "/permissions/{permission}/revoke",
            "permissions",
            404,
            None,
            {200: "decider root scoped", 403: OWNER},
        )
    ],
    "GET inbox/items": [Row("/inbox/items", "read", 200)],
    "GET inbox/items/<id:item_id>": [
        Row("/inbox/items/{guarded}", "read", 404, None, {200: SEES_GUARDED}),
        Row("/inbox/items/{free}", "read", 404, None, {200: SEES_FREE}),
    ],
    "POST inbox/items": [
        Row(
            "/inbox/items",
            "drop",
            403,
            {"mailbox": "helper/ada", "tag": "note", "request": "Note", "response": "Hello."},
            {201: "root scoped", 404: "dropper"},
        ),
        Row(
            "/inbox/items",
            "drop",
            403,
            {"mailbox": "helper/dropper", "tag": "note", "request": "Note", "response": "Hello."},
            {201: "dropper root scoped"},
        ),
    ],
    "POST inbox/items/<id:item_id>/resolve": [
        Row(
            "/inbox/items/{guarded}/resolve",
            "resolve",
            404,
            {"response": "Yes."},
            {200: "finance root scoped", 403: f"{OWNER} viewer"},
        ),
        Row(
            "/inbox/items/{free}/resolve",
            "resolve",
            404,
            {"response": "Yes."},
            {200: "finance outside root scoped", 403: f"{OWNER} viewer"},
        ),
    ],
    "POST inbox/items/<id:item_id>/cancel": [
        Row(
            "/inbox/items/{guarded}/cancel",
            "resolve",
            404,
            {"reason": "No."},
            {200: "finance root scoped", 403: f"{OWNER} viewer"},
        )
    ],
    "POST inbox/items/<id:item_id>/link": [
        Row(
            "/inbox/items/{guarded}/link",
            "resolve",
            404,
            {},
            {201: "finance root scoped", 403: f"{OWNER} viewer"},
        )
    ],
    # As the peer of one's key: another right than any of a user's.
    "GET mesh/peers": [Row("/mesh/peers", "mesh", 403, None, {200: "peer neighbour root scoped"})],
    "POST mesh/peers/<id:peer_id>/retire": [
        Row("/mesh/peers/{side}/retire", "mesh", 403, None, {200: "root scoped", 404: "neighbour"})
    ],
    "POST mesh/peers/<id:peer_id>/bring-back": [
        Row("/mesh/peers/{side}/bring-back", "mesh", 403, None, {200: "root scoped", 404: "neighbour"})
    ],
    "GET mesh/messages": [Row("/mesh/messages", "mesh", 403, None, {200: "peer neighbour"})],
    "POST mesh/messages": [
        Row(
            "/mesh/messages", "mesh", 403, {"to": "helper/ada/side", "content": "Hi."}, {201: "peer", 404: "neighbour"}
        ),
    ],
    "GET mesh/messages/<message_id>": [
        Row("/mesh/messages/{letter}", "mesh", 403, None, {200: "peer", 404: "neighbour"}),
    ],
    "POST mesh/messages/<message_id>/ack": [
        Row("/mesh/messages/{letter}/ack", "mesh", 403, {}, {200: "peer", 404: "neighbour"}),
    ],
}
# Descriptions of the API, open to everybody; and the address that only names the mount.
OPEN = {"openapi.json": 200, "docs": 200, "": 404}


def routes(resolver: URLResolver, prefix: str = "") -> list[str]:
    found = []
    for pattern in resolver.url_patterns:
        path = prefix + str(pattern.pattern)
        found += routes(pattern, path) if isinstance(pattern, URLResolver) else [path]
    return found


def api_routes() -> set[str]:
    return {route.removeprefix(ROOT) for route in routes(get_resolver()) if route.startswith(ROOT)}


@pytest.fixture
def callers(world) -> dict[str, Caller]:
    revoked = by_key(world.root)
    revoke_all_keys(world.root)
    dropper = person("dropper", "inbox.drop_item")
    open_mailbox("helper/dropper", agent="helper", owner=dropper)
    return {
        "nobody": Caller(),
        "wrong_key": Caller(key="glv_wrong"),
        "revoked_key": revoked,
        "owner": by_key(world.ada),
        "owner_session": by_session(world.ada),
        "stranger": by_key(world.bob),
        "staff": by_session(world.plain),
        "outside": by_key(world.outside),
        "viewer": by_key(world.viewer),
        "finance": by_session(world.finance),
        "reader": by_key(person("reader", "agents.view_conversation")),
        "writer": by_key(person("writer", "agents.view_conversation", "agents.change_conversation")),
        "decider": by_key(person("decider", "agents.decide_permission")),
        "dropper": by_key(dropper),
        "opener": by_key(person("opener", "inbox.mailboxes")),
        "root": by_key(world.root),
        "peer": by_key(world.ada, peer=world.mailbox),
        "neighbour": by_key(world.bob, peer=world.other),
    }


@pytest.fixture
def subjects(world) -> dict[str, int | str]:
    talk = conversations.open_conversation(world.mailbox.pk)
    conversations.say(talk.pk, "Hello?")
    stopped = conversations.open_conversation(world.mailbox.pk)
    conversations.say(stopped.pk, "Hello?")
    conversations.cancel(stopped.pk)
    permission = permissions.grant(agent="helper", tool="look_up", mailbox_id=world.mailbox.pk, scope="any")
    side = joining.join(open_mailbox("helper/ada/side", agent="helper", owner=world.ada))
    mine, _ = joining.join(world.mailbox), joining.join(world.other)
    letter = sending.send(sending.From(side), [str(mine)], "Hello, neighbour.")
    return {
        "letter": letter.message.pk,
        "side": side.pk,
        "talk": talk.pk,
        "stopped": stopped.pk,
        "permission": permission.pk,
        "guarded": world.guarded.pk,
        "free": world.free.pk,
    }


def test_every_route_has_its_rows():
    known = {key.split(" ", 1)[1] for key in MATRIX} | set(OPEN)
    assert api_routes() == known


@pytest.mark.django_db
@pytest.mark.one_database
@pytest.mark.parametrize("key", MATRIX)
def test_who_may(key, world, callers, subjects):
    """Each cell in a transaction of its own, which is taken back."""
    method = key.split()[0]
    for row in MATRIX[key]:
        scopes = {"scoped": [row.scope], "narrow": ["drop" if row.scope == "read" else "read"]}
        everybody = {**callers, **{name: by_key(world.root, *held) for name, held in scopes.items()}}
        found = {}
        for name, caller in everybody.items():
            with transaction.atomic():
                found[name] = caller(method, row.path.format(**subjects), row.body).status_code
                transaction.set_rollback(True)
        assert found == row.expected(), row.path


@pytest.mark.django_db
@pytest.mark.parametrize("route", sorted({key.split(" ", 1)[1] for key in MATRIX}))
def test_no_route_answers_another_method(route, world, callers, subjects):
    answered = {key.split()[0] for key in MATRIX if key.endswith(f" {route}")}
    path = next(row.path for key, rows in MATRIX.items() if key.endswith(f" {route}") for row in rows).format(
        **subjects
    )
    for method in set(METHODS) - answered:
        for name in ("nobody", "owner", "root"):
            assert callers[name](method, path).status_code == 405, (method, name)


@pytest.mark.parametrize("route", OPEN)
def test_descriptions_are_open(route, client):
    assert client.get(f"/{ROOT}{route}").status_code == OPEN[route]


# --- What one may not see is invisible in lists too (promise 7)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("who", "expected"),
    [
        ("owner", {"approval:refund", "restock:beans", "restock:milk"}),
        ("stranger", {"restock:tea"}),
        ("staff", set()),
        ("outside", {"restock:beans", "restock:milk", "restock:tea"}),
        ("viewer", {"approval:refund", "restock:beans", "restock:milk", "restock:tea"}),
        ("finance", {"approval:refund", "restock:beans", "restock:milk", "restock:tea"}),
        ("reader", set()),
        ("root", {"approval:refund", "restock:beans", "restock:milk", "restock:tea"}),
    ],
)
def test_items_in_lists(who, expected, callers):
    assert {item["tag"] for item in callers[who].get("/inbox/items").json()["items"]} == expected
    for query in ("tag=approval:refund", "mailbox=helper/ada", "status=pending", "blocking=true"):
        found = callers[who].get(f"/inbox/items?{query}").json()["items"]
        assert {item["tag"] for item in found} <= expected


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("who", "talks", "decisions"),
    [
        ("owner", 2, 1),
        ("stranger", 0, 0),
        ("staff", 0, 0),
        ("finance", 0, 0),
        ("reader", 2, 0),
        ("decider", 0, 1),
        ("root", 2, 1),
    ],
)
def test_conversations_and_permissions_in_lists(who, talks, decisions, callers, subjects):
    assert len(callers[who].get("/conversations").json()["items"]) == talks
    assert len(callers[who].get("/permissions").json()["items"]) == decisions


@pytest.mark.django_db
def test_a_scope_may_stand_for_the_right_to_free_addresses(world):
    """The key's maker gave it; its user need not have the permission. A key with other scopes lacks it even then."""
    wish = {"agent": "helper", "mailbox": "planner"}
    assert by_key(world.root, "converse").post("/conversations", wish).status_code == 404
    assert by_key(world.bob, "converse", "mailboxes").post("/conversations", wish).status_code == 201


@pytest.mark.django_db
def test_the_owner_answers_tags_that_are_declared_so(world, settings):
    settings.INBOX_OWNER_TAGS = ["restock:*"]
    caller = by_key(world.ada)
    assert caller.post(f"/inbox/items/{world.free.pk}/resolve", {"response": "Yes."}).status_code == 200
    assert caller.post(f"/inbox/items/{world.guarded.pk}/resolve", {"response": "Yes."}).status_code == 403


@pytest.mark.django_db
def test_the_same_answer_for_what_is_hidden_and_what_is_not_there(world):
    caller = by_key(world.bob)
    hidden, missing = (caller.get(f"/inbox/items/{pk}").json() for pk in (world.guarded.pk, 999_999))
    assert hidden == missing


@pytest.mark.django_db
def test_a_key_of_a_peer_is_still_its_users(world):
    key, plaintext = create_key(world.ada, "peer", peer=world.mailbox)
    assert key.peer == world.mailbox
    assert Caller(key=plaintext).get("/inbox/items").status_code == 200
