"""Idempotency-Key: the effect happens once, and its answer is given again."""

import threading
from datetime import timedelta
from unittest import mock

import pytest
from django.db import connection, transaction
from django.test import RequestFactory
from django.utils import timezone

from agents.models import Conversation
from glove_site.api import api
from inbox.errors import NotAllowed
from inbox.models import ApiKey, IdempotencyKey, Item, ResolveLink
from inbox.services import idempotency, letters
from tests.api.kit import Caller, assert_problem, by_key, by_session

MAIL = {"mailbox": "helper/ada", "tag": "note", "request": "Note", "response": "Hello."}


@pytest.mark.django_db
def test_the_same_call_again(world):
    caller = by_key(world.root)
    first = caller.post("/inbox/items", MAIL, Idempotency_Key="a")
    again = caller.post("/inbox/items", MAIL, Idempotency_Key="a")
    assert first.status_code == again.status_code == 201
    assert first.content == again.content
    assert again["Content-Type"] == first["Content-Type"]
    assert (first.get("Idempotency-Replayed"), again["Idempotency-Replayed"]) == (None, "true")
    assert Item.objects.filter(tag="note").count() == 1


@pytest.mark.django_db
def test_without_a_key_every_call_counts(world):
    caller = by_key(world.root)
    for _ in range(2):
        caller.post("/inbox/items", MAIL)
    assert Item.objects.filter(tag="note").count() == 2
    assert not IdempotencyKey.objects.exists()


@pytest.mark.django_db
def test_another_body(world):
    caller = by_key(world.root)
    caller.post("/inbox/items", MAIL, Idempotency_Key="a")
    response = caller.post("/inbox/items", {**MAIL, "response": "Other."}, Idempotency_Key="a")
    assert_problem(response, 422, "idempotency-mismatch")
    assert Item.objects.filter(tag="note").count() == 1


@pytest.mark.django_db
def test_a_key_belongs_to_its_caller_and_its_route(world):
    for caller in (by_key(world.root), by_key(world.root), by_session(world.root)):
        assert caller.post("/inbox/items", MAIL, Idempotency_Key="a").status_code == 201
    assert Item.objects.filter(tag="note").count() == 3
    caller = by_key(world.finance)
    for item in (world.guarded, world.free):
        response = caller.post(f"/inbox/items/{item.pk}/resolve", {"response": "Yes."}, Idempotency_Key="a")
        assert response.json()["id"] == str(item.pk)


@pytest.mark.django_db
def test_an_error_is_not_kept(world):
    caller = by_key(world.root)
    assert_problem(caller.post("/inbox/items", {**MAIL, "tag": "no tag"}, Idempotency_Key="a"), 422, "bad-tag")
    assert_problem(caller.post("/inbox/items", {**MAIL, "mailbox": "x"}, Idempotency_Key="a"), 404, "item-not-found")
    assert caller.post("/inbox/items", MAIL, Idempotency_Key="a").status_code == 201


@pytest.mark.django_db
def test_the_conflict_of_a_second_answer_is_told_anew(world):
    caller, late = by_key(world.finance), by_key(world.root)
    path = f"/inbox/items/{world.guarded.pk}/resolve"
    assert caller.post(path, {"response": "Yes."}, Idempotency_Key="a").status_code == 200
    assert_problem(late.post(path, {"response": "No."}, Idempotency_Key="b"), 409, "already-closed")
    again = caller.post(path, {"response": "Yes."}, Idempotency_Key="a")
    assert (again.status_code, again.json()["response"]) == (200, "Yes.")


@pytest.mark.django_db
@pytest.mark.parametrize("key", ["", "x" * 201, "two words", "ke\ty", "schl\xfcssel"])
def test_a_key_that_is_none(world, key):
    response = by_key(world.root).post("/inbox/items", MAIL, Idempotency_Key=key)
    assert_problem(response, 422, "bad-idempotency-key")
    assert not Item.objects.filter(tag="note").exists()


@pytest.mark.django_db
def test_kept_for_a_day(world):
    caller = by_key(world.root)
    first = caller.post("/inbox/items", MAIL, Idempotency_Key="a").json()
    IdempotencyKey.objects.update(created_at=timezone.now() - timedelta(hours=23, minutes=59))
    assert caller.post("/inbox/items", MAIL, Idempotency_Key="a").json() == first
    IdempotencyKey.objects.update(created_at=timezone.now() - timedelta(hours=24, minutes=1))
    assert caller.post("/inbox/items", MAIL, Idempotency_Key="a").json() != first
    assert IdempotencyKey.objects.count() == 1


@pytest.mark.django_db
def test_reading_ignores_it(world):
    caller = by_key(world.ada)
    for tag in ("restock:beans", "restock:milk"):
        found = caller.get(f"/inbox/items?tag={tag}", Idempotency_Key="a").json()
        assert [item["tag"] for item in found["items"]] == [tag]


def test_every_post_of_the_api_has_it(rf: RequestFactory):
    """Whatever router a route is declared in, the edge stands around it."""
    posts = [
        operation
        for router in api._get_bound_routers()
        for view in router.path_operations.values()
        for operation in view.operations
        if "POST" in operation.methods
    ]
    assert len(posts) >= 10
    for operation in posts:
        with mock.patch("inbox.http.idempotency.once", side_effect=LookupError) as once:
            request = rf.post("/", content_type="application/json")
            request._glove_caller = mock.Mock(id="user:1")
            with pytest.raises(LookupError):
                operation.run(request)
        once.assert_called_once()


# --- One transaction


@pytest.mark.django_db(transaction=True)
def test_there_is_neither_effect_nor_answer_without_the_other(world):
    """A fault between the effect and the keeping of its answer takes both back."""
    caller = by_key(world.root)
    with mock.patch.object(idempotency, "_seal", side_effect=RuntimeError("power cut")), pytest.raises(RuntimeError):
        caller.post("/inbox/items", MAIL, Idempotency_Key="a")
    assert not Item.objects.filter(tag="note").exists()
    assert not IdempotencyKey.objects.exists()
    assert caller.post("/inbox/items", MAIL, Idempotency_Key="a").status_code == 201


@pytest.mark.django_db(transaction=True)
def test_what_a_refused_call_wrote_is_taken_back(world):
    """So that the same call, sent again, begins anew."""

    def half(user, *, mailbox, via, **mail):
        letters.drop(world.mailbox.pk, by="x", via=via, **mail)
        raise NotAllowed("Not after all; ask somebody.")

    with mock.patch("inbox.api.answers.drop_as", half):
        assert_problem(by_key(world.root).post("/inbox/items", MAIL, Idempotency_Key="a"), 403, "not-allowed")
    assert not Item.objects.filter(tag="note").exists()


@pytest.mark.django_db(transaction=True)
def test_what_follows_the_commit_still_follows(world):
    """The wake of a dropped item is sent once, after the outer transaction."""
    caller = by_key(world.root)
    with mock.patch("inbox.services.items.mailbox_ready.send_robust") as ready:
        caller.post("/inbox/items", MAIL, Idempotency_Key="a")
        caller.post("/inbox/items", MAIL, Idempotency_Key="a")
    ready.assert_called_once()


@pytest.mark.django_db(transaction=True)
def test_many_at_once(world, race):
    """Each gets the first answer, or is told that it is still under way; the effect happened once."""
    key = by_key(world.ada, "converse").key
    body = {"agent": "helper", "mailbox": "helper/ada/side"}

    def act(index):
        return Caller(key=key).post("/conversations", body, Idempotency_Key="a")

    finish = race(8, act)
    assert not finish.errors
    codes = sorted(response.status_code for response in finish.results)
    assert set(codes) <= {201, 409}
    assert 201 in codes
    assert len({response.json()["id"] for response in finish.results if response.status_code == 201}) == 1
    for response in finish.results:
        if response.status_code == 409:
            assert_problem(response, 409, "still-in-flight")
    assert Conversation.objects.filter(mailbox__address="helper/ada/side").count() == 1


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_still_in_flight(world):
    """While another transaction holds the key."""
    caller = by_key(world.root)
    identity = f"key:{ApiKey.objects.get().pk}"
    held, done = threading.Event(), threading.Event()

    def hold():
        with transaction.atomic():
            assert idempotency.lock(identity, "/api/v1/inbox/items", "a")
            held.set()
            done.wait(20)
        connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(20)
    try:
        assert_problem(caller.post("/inbox/items", MAIL, Idempotency_Key="a"), 409, "still-in-flight")
        assert caller.post("/inbox/items", MAIL, Idempotency_Key="b").status_code == 201
    finally:
        done.set()
        thread.join()
    assert caller.post("/inbox/items", MAIL, Idempotency_Key="a").status_code == 201


# --- What is kept


@pytest.mark.django_db
def test_the_token_of_a_link_is_not_kept_in_clear(world):
    caller = by_key(world.finance)
    path = f"/inbox/items/{world.guarded.pk}/link"
    first = caller.post(path, {}, Idempotency_Key="a")
    token = first.json()["url"].rpartition("/")[2]
    assert token not in IdempotencyKey.objects.get().body
    assert caller.post(path, {}, Idempotency_Key="a").content == first.content
    assert ResolveLink.objects.count() == 1


@pytest.mark.django_db
def test_after_the_sites_secret_has_changed(world, settings):
    """The call was done, so it is not done again; its answer cannot be read any more, and says so."""
    caller = by_key(world.root)
    caller.post("/inbox/items", MAIL, Idempotency_Key="a")
    settings.SECRET_KEY = "another" * 10
    assert_problem(caller.post("/inbox/items", MAIL, Idempotency_Key="a"), 409, "answer-unreadable")
    assert Item.objects.filter(tag="note").count() == 1
