"""Whatever is wrong with a call is a problem+json that says what to do, and changes nothing."""

import json
from contextlib import suppress
from unittest import mock

import pytest
from django.db import InterfaceError, InternalError, OperationalError
from hypothesis import given
from hypothesis import strategies as st

from inbox.errors import InboxError, UnstorableText
from inbox.http import errors
from inbox.http.parser import MAX_DEPTH, parse_json
from inbox.models import Item
from tests.api.kit import BASE, JSON, Caller, assert_problem, by_key

DROP = "/inbox/items"
MAIL = {"mailbox": "helper/ada", "tag": "note", "request": "Note", "response": "Hello."}


def mail(**changes):
    return json.dumps({**MAIL, **changes}).encode()


BODIES = [
    pytest.param(b"{", 400, "malformed-json", id="cut off"),
    pytest.param(b"", 422, "invalid", id="none"),
    pytest.param(b"not json", 400, "malformed-json", id="words"),
    pytest.param(b"\xef\xbb\xbf{}", 400, "malformed-json", id="byte order mark"),
    pytest.param(b'{"tag": "\xff"}', 400, "malformed-json", id="not utf-8"),
    pytest.param('{"tag": "a"}'.encode("utf-16"), 400, "malformed-json", id="utf-16"),
    pytest.param(b'{"a": 1} {"b": 2}', 400, "malformed-json", id="two documents"),
    pytest.param(b'{"tag": "a", "tag": "b"}', 400, "duplicate-key", id="a key twice"),
    pytest.param(b'{"tag": {"x": 1, "x": 1}}', 400, "duplicate-key", id="a key twice, deep"),
    pytest.param(b'{"tag": ' + b"[" * 100_000, 400, "too-deep", id="brackets without end"),
    pytest.param(b"[" * (MAX_DEPTH + 2) + b"]" * (MAX_DEPTH + 2), 400, "too-deep", id="too deep"),
    pytest.param(b'{"n": NaN}', 422, "bad-number", id="NaN"),
    pytest.param(b'{"n": [Infinity]}', 422, "bad-number", id="Infinity"),
    pytest.param(b'{"n": -Infinity}', 422, "bad-number", id="-Infinity"),
    pytest.param(b'{"n": 1e400}', 422, "bad-number", id="1e400"),
    pytest.param(b'{"n": -1e400}', 422, "bad-number", id="-1e400"),
    pytest.param(b'{"n": 9223372036854775808}', 422, "bad-number", id="65 bits"),
    pytest.param(b'{"n": ' + b"9" * 10_000 + b"}", 422, "bad-number", id="thousands of digits"),
    pytest.param(mail(response="a\0b"), 422, "text", id="NUL"),
    pytest.param(mail(response="\ud800"), 422, "text", id="lone surrogate"),
    pytest.param(b'{"a": [{"b": {"c\\u0000": 1}}]}', 422, "text", id="NUL in a deep key"),
    pytest.param(b'{"a": [[["\\udfff"]]]}', 422, "text", id="surrogate in a deep value"),
    pytest.param(b"[]", 422, "invalid", id="not an object"),
    pytest.param(b"null", 422, "invalid", id="null"),
    pytest.param(mail(response=5), 422, "invalid", id="a number for a text"),
    pytest.param(mail(response=None), 422, "invalid", id="null for a text"),
    pytest.param(mail(extra=1), 422, "invalid", id="a field that nobody reads"),
    pytest.param(mail(response=" \n"), 422, "blank-text", id="blank"),
    pytest.param(mail(response="\u200b\u202e"), 422, "blank-text", id="nothing to be seen"),
    pytest.param(mail(request="x" * 70_000), 413, "text-too-long", id="too long"),
    pytest.param(mail(response="x" * 1_100_000), 413, "body-too-large", id="over a mebibyte"),
    pytest.param(mail(tag="no spaces"), 422, "bad-tag", id="not a tag"),
    pytest.param(mail(tag="tool:refund"), 422, "bad-tag", id="a tag of the system"),
    pytest.param(mail(tag="approval:refund"), 403, "not-allowed", id="a tag that has a group"),
    pytest.param(mail(mailbox="helper/nobody"), 404, "item-not-found", id="no such mailbox"),
]


@pytest.mark.django_db
@pytest.mark.parametrize(("body", "status", "slug"), BODIES)
def test_bad_bodies(world, body, status, slug):
    caller = by_key(world.root)
    before = list(Item.objects.order_by("pk").values())
    found = assert_problem(caller("POST", DROP, body), status, slug)
    assert list(Item.objects.order_by("pk").values()) == before
    if slug == "invalid":
        assert all({"in", "field", "problem"} <= set(error) for error in found["errors"])


@pytest.mark.django_db
def test_wrong_fields_are_named(world):
    found = assert_problem(by_key(world.root).post(DROP, {"mailbox": 5, "tag": "a", "request": "b"}), 422, "invalid")
    assert {error["field"] for error in found["errors"]} == {"mailbox", "response"}
    assert "response" in found["detail"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=latin-1",
        "",
    ],
)
def test_other_content_types(world, kind):
    assert_problem(by_key(world.root)("POST", DROP, mail(), Content_Type=kind), 415, "content-type")


@pytest.mark.django_db
@pytest.mark.parametrize("kind", [JSON, "application/json; charset=utf-8", "APPLICATION/JSON;charset=UTF-8"])
def test_json_by_any_of_its_names(world, kind):
    assert by_key(world.root)("POST", DROP, mail(), Content_Type=kind).status_code == 201


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "status", "slug"),
    [
        ("/inbox/items?tag=a%00b", 422, "text"),
        ("/inbox/items?%00=a", 422, "text"),
        ("/conversations?unknown=%00", 422, "text"),
        ("/inbox/items?limit=0", 422, "invalid"),
        ("/inbox/items?limit=201", 422, "invalid"),
        ("/inbox/items?limit=ten", 422, "invalid"),
        ("/inbox/items?limit=1&limit=2", 422, "repeated-parameter"),
        ("/inbox/items?status=lost", 422, "invalid"),
        ("/inbox/items?blocking=perhaps", 422, "invalid"),
        ("/inbox/items?tag=" + "x" * 121, 422, "invalid"),
        ("/inbox/items/0", 404, "not-found"),
        ("/inbox/items/-1", 404, "not-found"),
        ("/inbox/items/abc", 404, "not-found"),
        ("/inbox/items/%00", 404, "not-found"),
        ("/inbox/items/9223372036854775807", 404, "item-not-found"),
        ("/inbox/items/9223372036854775808", 404, "not-found"),
        ("/inbox/items/99999999999999999999999999", 404, "not-found"),
        ("/conversations/9223372036854775807", 404, "conversation-not-found"),
        ("/nowhere", 404, "not-found"),
        ("/", 404, "not-found"),
        ("/inbox/items/", 404, "not-found"),
    ],
)
def test_bad_addresses(world, path, status, slug):
    assert_problem(by_key(world.root).get(path), status, slug)


@pytest.mark.django_db
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
def test_other_methods(world, method):
    response = by_key(world.root)(method, "/inbox/items")
    assert_problem(response, 405, "method-not-allowed")
    assert set(response["Allow"].split(", ")) == {"GET", "POST"}


@pytest.mark.parametrize("debug", [True, False])
@pytest.mark.parametrize("path", ["/api/v1/nowhere", "/hooks/", "/hooks"])
def test_djangos_own_404_is_a_problem(settings, client, debug, path):
    settings.DEBUG = debug
    assert_problem(client.get(path), 404, "not-found")


def test_other_pages_stay_pages(client):
    response = client.get("/no/such/page")
    assert response.status_code == 404
    assert response["Content-Type"].startswith("text/html")


def test_a_host_that_is_not_ours(client, settings):
    settings.ALLOWED_HOSTS = ["glove.example"]
    assert_problem(client.get(f"{BASE}/agents", headers={"Host": "evil.example"}), 400, "bad-request")


@pytest.mark.django_db
@pytest.mark.parametrize("fault", [OperationalError, InternalError, InterfaceError])
def test_a_database_that_is_away(world, fault):
    caller = by_key(world.ada)
    with mock.patch("inbox.api.newest_items", side_effect=fault("gone")):
        response = caller.get("/inbox/items")
    assert_problem(response, 503, "unavailable")
    assert int(response["Retry-After"]) > 0


@pytest.mark.django_db
def test_a_database_that_is_away_while_the_caller_is_looked_up():
    with mock.patch("inbox.services.keys.ApiKey.objects.select_related", side_effect=OperationalError("gone")):
        assert_problem(Caller(key="glv_any").get("/inbox/items"), 503, "unavailable")


@pytest.mark.django_db
@pytest.mark.parametrize("debug", [True, False])
def test_what_nobody_foresaw_tells_nothing(world, settings, debug):
    settings.DEBUG = debug
    caller = by_key(world.ada)
    caller.client.raise_request_exception = False
    with mock.patch("inbox.api.newest_items", side_effect=ZeroDivisionError("the secret reason")):
        response = caller.get("/inbox/items")
    assert_problem(response, 500, "internal")
    assert b"secret reason" not in response.content


def test_facts_do_not_replace_the_standard_members():
    from inbox.http.problems import from_error

    class Odd(InboxError):
        """It is odd."""

        slug, status = "odd", 409

    found = json.loads(from_error(Odd(status="new", type="x", by="ada")).content)
    assert (found["status"], found["type"], found["by"]) == (409, "urn:glove:problem:odd", "ada")


# --- The parser alone

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(json_values)
def test_what_is_fit_comes_through_as_it_is(value):
    assert parse_json(json.dumps(value).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_a_named_error(raw):
    with suppress(errors.MalformedJson, errors.DuplicateKey, errors.BadNumber, errors.TooDeep, UnstorableText):
        parse_json(raw)


def test_where_the_bad_character_is():
    with pytest.raises(InboxError, match=r"todos\.1\.content holds U\+0000 at position 2"):
        parse_json(b'{"todos": [{}, {"content": "ab\\u0000"}]}')


def test_deepest():
    fits = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert parse_json(fits)
    with pytest.raises(errors.TooDeep):
        parse_json(b"[" + fits + b"]")
