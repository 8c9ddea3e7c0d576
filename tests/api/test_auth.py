"""Who is let in: a key decides alone, then a session with its CSRF token; everybody else gets 401."""

import hashlib
import logging

import pytest
from django.contrib.auth.models import User
from django.test import Client

from inbox.errors import BadScope
from inbox.models import ApiKey, Item
from inbox.services import keys
from tests.api.kit import BASE, JSON, Caller, assert_problem, by_key, by_session, revoke_all_keys

pytestmark = pytest.mark.django_db


def test_nobody(world):
    response = Caller().get("/inbox/items")
    assert_problem(response, 401, "not-authenticated")
    assert response["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "header", ["Bearer glv_wrong", "Bearer", "Bearer ", "Basic YWRhOmFkYQ==", "glv_bare", "Bearer k\xe9y", ""]
)
def test_a_wrong_key_is_refused_even_beside_a_good_session(world, header):
    response = by_session(world.ada).get("/inbox/items", Authorization=header)
    assert_problem(response, 401, "not-authenticated")


def test_a_key_speaks_for_its_user(world):
    found = by_key(world.ada).get("/inbox/items").json()
    assert {item["mailbox"] for item in found["items"]} == {"helper/ada"}


def test_the_key_wins_over_the_session(world):
    caller = by_session(world.ada)
    caller.key = by_key(world.bob).key
    assert {item["mailbox"] for item in caller.get("/inbox/items").json()["items"]} == {"helper/bob"}


def test_a_revoked_key(world):
    caller = by_key(world.ada)
    revoke_all_keys(world.ada)
    assert_problem(caller.get("/inbox/items"), 401, "not-authenticated")


@pytest.mark.parametrize("caller", [by_key, by_session])
def test_an_inactive_user(world, caller):
    caller = caller(world.ada)
    User.objects.filter(pk=world.ada.pk).update(is_active=False)
    assert_problem(caller.get("/inbox/items"), 401, "not-authenticated")


def test_a_key_without_the_scope(world):
    response = by_key(world.finance, "read").post(f"/inbox/items/{world.guarded.pk}/resolve", {"response": "Yes."})
    assert assert_problem(response, 403, "scope")["scope"] == "resolve"
    world.guarded.refresh_from_db()
    assert world.guarded.status == Item.Status.PENDING


def test_a_scope_gives_no_right_that_the_user_lacks(world):
    response = by_key(world.ada, "resolve").post(f"/inbox/items/{world.guarded.pk}/resolve", {"response": "Yes."})
    assert_problem(response, 403, "not-allowed")


@pytest.mark.parametrize("origin", [{}, {"Origin": "https://evil.example"}])
def test_a_session_without_its_token_writes_nothing(world, origin):
    """Case 44."""
    caller = by_session(world.finance, enforce_csrf_checks=True)
    response = caller.post(f"/inbox/items/{world.guarded.pk}/resolve", {"response": "Yes."}, **origin)
    assert_problem(response, 403, "csrf")
    world.guarded.refresh_from_db()
    assert world.guarded.status == Item.Status.PENDING


def test_a_session_reads_without_a_token(world):
    assert by_session(world.ada, enforce_csrf_checks=True).get("/inbox/items").status_code == 200


def test_a_session_with_its_token_writes(world):
    caller = by_session(world.finance, enforce_csrf_checks=True)
    page = caller.client.get(f"{BASE}/docs")
    token = page.cookies["csrftoken"].value
    response = caller.post(f"/inbox/items/{world.guarded.pk}/resolve", {"response": "Yes."}, X_CSRFToken=token)
    assert response.status_code == 200


def test_a_key_needs_no_cookie(world):
    """Case 44."""
    client = Client(enforce_csrf_checks=True)
    caller = Caller(world.finance, by_key(world.finance).key, client)
    response = caller.post(
        f"/inbox/items/{world.guarded.pk}/resolve", {"response": "Yes."}, Origin="https://evil.example"
    )
    assert response.status_code == 200
    assert not client.cookies


def test_401_comes_before_anything_that_the_body_says(world):
    response = Caller()("POST", "/inbox/items", b"{", Content_Type="text/plain")
    assert_problem(response, 401, "not-authenticated")


# --- Keys at rest


def test_only_the_hash_of_a_key_is_kept(world):
    key, plaintext = keys.create_key(world.ada, "laptop", ["read"])
    row = ApiKey.objects.filter(pk=key.pk).values().get()
    assert row["key_hash"] == hashlib.sha256(plaintext.encode()).hexdigest()
    assert len(plaintext) > 40
    assert plaintext[len(row["prefix"]) :] not in str(row)


def test_an_unknown_scope_is_no_key(world):
    with pytest.raises(BadScope, match="fly"):
        keys.create_key(world.ada, "laptop", ["read", "fly"])
    assert not ApiKey.objects.exists()


def test_revoking_twice_moves_one_row(world):
    key, _ = keys.create_key(world.ada, "laptop")
    assert [keys.revoke_key(key.pk), keys.revoke_key(key.pk)] == [True, False]


def test_keys_stay_out_of_the_logs(world, caplog, settings):
    settings.DEBUG = True  # where libraries say more
    caplog.set_level(logging.DEBUG)
    caller = by_key(world.ada)
    caller.get("/inbox/items")
    caller.get("/inbox/nowhere")
    caller.get("/inbox/items", Authorization="Basic c2VjcmV0LXdvcmRz")
    caller("POST", "/inbox/items", b"{", Content_Type=JSON)
    assert caller.key not in caplog.text
    assert "c2VjcmV0LXdvcmRz" not in caplog.text
