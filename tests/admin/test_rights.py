"""Tag groups and their trial, roles, canned answers, and that nobody gives away more than she has."""

import io

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.urls import reverse

from glove_site.roles import ROLES
from inbox import access
from inbox.models import ApiKey, CannedAnswer, TagGroup
from inbox.services import rights
from inbox.services.keys import find_key
from tests.admin import world

ADD = "/admin/inbox/taggroup/add/"


def group(name: str) -> Group:
    return Group.objects.get(name=name)


# --- Tag groups
def test_a_trial_saves_nothing_and_tells_who(shop, sign_in):
    sent = {"pattern": "question:*", "groups": [group("store").pk], "sample": "question:hours", "_try": "1"}
    response = sign_in(shop.olga).post(ADD, sent)
    trial = response.context["trial"]
    assert (trial.fits, trial.rows, trial.people) == (True, [("question:*", ["store"])], ["bob"])
    assert not TagGroup.objects.filter(pattern="question:*").exists()
    assert not LogEntry.objects.exists()
    assert 'value="question:*"' in response.content.decode()


def test_a_trial_is_what_saving_then_makes_true(shop, sign_in):
    """The people whom the trial names are exactly those who may answer once it is saved."""
    world.person("zoe", "resolver", "billing", "store")
    sent = {"pattern": "question:*", "groups": [group("store").pk], "sample": "question:hours"}
    client = sign_in(shop.olga)
    named = set(client.post(ADD, {**sent, "_try": "1"}).context["trial"].people)
    client.post(ADD, sent)
    everybody = {user.username: user for user in world.get_user_model().objects.filter(is_superuser=False)}
    may = {name for name, user in everybody.items() if access.may_resolve(user, shop.note)}
    assert named == may == {"bob", "zoe"}


def test_a_trial_of_a_change_looks_past_the_row_itself(shop, sign_in):
    row = TagGroup.objects.get(pattern="approval:*")
    sent = {"pattern": "approval:r*", "groups": [group("store").pk], "sample": "approval:refund", "_try": "1"}
    response = sign_in(shop.olga).post(reverse("admin:inbox_taggroup_change", args=[row.pk]), sent)
    assert response.context["trial"].rows == [("approval:r*", ["store"])]
    row.refresh_from_db()
    assert row.pattern == "approval:*"


def test_a_tag_that_nothing_fits_is_open_to_all(shop, sign_in):
    response = sign_in(shop.olga).post(ADD, {"pattern": "x:*", "sample": "y", "_try": "1"})
    trial = response.context["trial"]
    assert (trial.fits, trial.rows, trial.people) == (False, [], ["ada", "bob"])
    assert "does not fit this pattern" in response.content.decode()


def test_a_group_without_the_permission_is_told(shop, sign_in):
    response = sign_in(shop.olga).post(
        ADD, {"pattern": "x:*", "groups": [group("auditor").pk], "sample": "x:1", "_try": "1"}
    )
    assert "Nobody but superusers" in response.content.decode()


def test_saving_and_deleting_are_logged(shop, sign_in):
    client = sign_in(shop.olga)
    assert client.post(ADD, {"pattern": "question:*", "groups": [group("store").pk]}).status_code == 302
    row = TagGroup.objects.get(pattern="question:*")
    assert [one.name for one in row.groups.all()] == ["store"]
    client.post(reverse("admin:inbox_taggroup_delete", args=[row.pk]), {"post": "yes"})
    assert not TagGroup.objects.filter(pk=row.pk).exists()
    assert [entry.user for entry in LogEntry.objects.all()] == [shop.olga, shop.olga]


@pytest.mark.parametrize("pattern", ["", "a b", "x" * 121, "ä", "approval:*\n", "approval:*"])
def test_a_bad_or_taken_pattern_is_refused(shop, sign_in, pattern):
    response = sign_in(shop.olga).post(ADD, {"pattern": pattern, "groups": [group("store").pk]})
    # Django strips the line break at the end, which leaves a pattern that is taken.
    assert response.status_code == 422
    assert TagGroup.objects.count() == 2


def test_who_only_looks_cannot_save_or_try(shop, sign_in):
    auditor = world.person("tess", "auditor")
    address = reverse("admin:inbox_taggroup_change", args=[TagGroup.objects.get(pattern="approval:*").pk])
    assert sign_in(auditor).get(address).status_code == 200
    assert "Save" not in sign_in(auditor).get(address).content.decode()
    assert sign_in(auditor).post(address, {"pattern": "x", "_try": "1"}).status_code == 403
    assert sign_in(auditor).post(address, {"pattern": "x"}).status_code == 403


# --- Canned answers
def test_canned_answers_are_edited_in_the_admin(shop, sign_in):
    client = sign_in(shop.olga)
    sent = {"title": "Yes", "pattern": "approval:*", "text": "Go ahead."}
    assert client.post("/admin/inbox/cannedanswer/add/", sent).status_code == 302
    row = CannedAnswer.objects.get()
    page = client.get(reverse("admin:inbox_cannedanswer_change", args=[row.pk])).content.decode()
    assert "Save and add another" not in page
    client.post(reverse("admin:inbox_cannedanswer_change", args=[row.pk]), {**sent, "text": "Go."})
    row.refresh_from_db()
    assert row.text == "Go."
    assert sign_in(shop.ada).post("/admin/inbox/cannedanswer/add/", sent).status_code == 403


def test_canned_answers_must_suit_every_tag(db):
    one = rights.set_canned_answer("approval:*", "One", "1")
    rights.set_canned_answer("restock:*", "Two", "2")
    assert rights.canned_answers(["approval:a", "approval:b"]) == [one]
    assert rights.canned_answers(["approval:a", "restock:b"]) == []


# --- Roles
def test_setup_roles_can_run_again_and_keeps_what_a_person_added(db):
    out = io.StringIO()
    call_command("setup_roles", stdout=out)
    resolver = group("resolver")
    extra = group("operator").permissions.get(codename="drop_item")
    resolver.permissions.add(extra)
    resolver.permissions.remove(resolver.permissions.get(codename="resolve_item"))
    call_command("setup_roles", stdout=out)
    assert "resolver: 1 permissions added" in out.getvalue()
    assert extra in resolver.permissions.all()
    assert set(ROLES) == set(Group.objects.values_list("name", flat=True))


def test_what_each_role_may(shop):
    tess = world.person("tess", "auditor")
    answers = {user.username: user.has_perm("inbox.resolve_item") for user in (shop.ada, shop.vera, shop.olga, tess)}
    assert answers == {"ada": True, "vera": False, "olga": False, "tess": False}
    assert not any(label.split(".")[1].startswith(("add_", "change_", "delete_")) for label in ROLES["auditor"])
    assert not any("agent_wide" in label for role in ROLES.values() for label in role)


# --- Keys
def issue(client, **given):
    return client.post("/admin/inbox/apikey/add/", {"owner": "olga", "name": "till", **given})


def test_a_key_is_shown_once(shop, sign_in):
    client = sign_in(shop.olga)
    response = issue(client, scopes=["read", "resolve"])
    plaintext = response.context["plaintext"]
    key = find_key(plaintext)
    assert (key.user, key.scopes) == (shop.olga, ["read", "resolve"])
    assert plaintext in response.content.decode()
    assert "no-store" in response["Cache-Control"]
    for address in ("admin:inbox_apikey_changelist", "admin:inbox_apikey_change"):
        args = [key.pk] if address.endswith("change") else []
        page = client.get(reverse(address, args=args)).content.decode()
        assert plaintext not in page
        assert key.key_hash not in page
    assert not LogEntry.objects.filter(change_message__contains=plaintext).exists()
    assert LogEntry.objects.get().user == shop.olga


def test_sent_twice_it_is_one_key(shop, sign_in):
    client = sign_in(shop.olga)
    issue(client)
    assert issue(client).status_code == 422
    assert ApiKey.objects.count() == 1


def test_revoking_asks_first_and_is_final(shop, sign_in):
    client = sign_in(shop.olga)
    plaintext = issue(client).context["plaintext"]
    address = reverse("admin:inbox_apikey_revoke", args=[ApiKey.objects.get().pk])
    assert client.get(address).status_code == 200
    assert find_key(plaintext)
    client.post(address)
    assert find_key(plaintext) is None
    revoked_at = ApiKey.objects.get().revoked_at
    client.post(address)
    assert ApiKey.objects.get().revoked_at == revoked_at
    assert LogEntry.objects.count() == 2


@pytest.mark.parametrize("owner", ["sam", "ada", "nobody", ""])
def test_nobody_issues_a_key_for_somebody_who_may_more(shop, sign_in, owner):
    """Ada may resolve, which Olga may not; Sam may everything; and both are as unknown as nobody."""
    response = issue(sign_in(shop.olga), owner=owner)
    assert response.status_code == 422
    assert not ApiKey.objects.exists()
    if owner:
        assert "There is no user of this name for whom you may issue a key." in response.content.decode()


def test_an_operator_issues_keys_for_those_who_may_less(shop, sign_in):
    assert issue(sign_in(shop.olga), owner="nina").status_code == 200
    assert issue(sign_in(shop.sam), owner="ada").status_code == 200


def test_a_peer_is_a_mailbox_that_is_there(shop, sign_in):
    assert issue(sign_in(shop.olga), peer="nowhere").status_code == 422
    assert issue(sign_in(shop.olga), peer="CONCIERGE/carl", owner="carl", name="p").status_code == 200
    assert ApiKey.objects.get().peer == shop.box


def test_a_key_speaks_on_the_mesh_for_its_own_user_or_for_nobodys_peer(shop, sign_in):
    """Olga sees every mailbox; that does not make her Carl on the mesh."""
    response = issue(sign_in(shop.olga), peer="concierge/carl")
    assert response.status_code == 422
    assert "is not olga&#x27;s mailbox" in response.content.decode()
    assert not ApiKey.objects.exists()
    planner = world.mailbox("planner", agent="planner")
    assert issue(sign_in(shop.olga), peer="planner").status_code == 200
    assert ApiKey.objects.get().peer == planner


def test_nobody_gives_a_scope_that_reaches_beyond_her_own_rights(shop, sign_in):
    """The scope mailboxes lets a key open free addresses, whatever its user may."""
    assert issue(sign_in(shop.olga), scopes=["read", "mailboxes"]).status_code == 422
    assert not ApiKey.objects.exists()
    assert issue(sign_in(shop.sam), owner="olga", scopes=["read", "mailboxes"]).status_code == 200
