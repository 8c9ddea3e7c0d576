"""The bad inputs that the API must name: each is a problem+json that says what to do, and nothing has changed."""

import itertools

import pytest
from django.apps import apps

from agents.services import conversations
from inbox import declare, webhook
from inbox.errors import InboxError
from inbox.models import ResolveLink
from inbox.services import answers
from tests.api.kit import Caller, assert_problem, by_key

pytestmark = pytest.mark.django_db

# Words of a sentence that tells somebody what to do, or where to look.
ADVICE = (
    *(
        "send",
        "use ",
        "check",
        "shorten",
        "write",
        "open a",
        "name ",
        "choose",
        "ask ",
        "lists those",
        "need",
        "remove",
    ),
    *("sign ", "wait", "nothing was changed", "sign in"),
)


def every_row():
    """All rows of our own tables."""
    models = itertools.chain.from_iterable(apps.get_app_config(app).get_models() for app in ("inbox", "agents", "mesh"))
    return {model: list(model.objects.order_by("pk").values()) for model in models}


@pytest.fixture
def places(world):
    """What the cases talk about: a closed conversation, an open one, a used link and a fresh one."""
    talk, closed = (conversations.open_conversation(world.mailbox.pk) for _ in range(2))
    conversations.close(closed.pk)
    _, used = answers.make_link(world.finance, world.free.pk)
    answers.resolve_by_link(used, "They are in.")
    _, expired = answers.make_link(world.finance, world.guarded.pk)
    ResolveLink.objects.filter(item=world.guarded).update(expires_at="2020-01-01T00:00Z")
    return {
        "talk": f"/conversations/{talk.pk}",
        "closed": f"/conversations/{closed.pk}",
        "item": f"/inbox/items/{world.guarded.pk}",
        "answered": f"/inbox/items/{world.closed.pk}",
        "used": f"/r/{used}",
        "expired": f"/r/{expired}",
    }


MAIL = {"mailbox": "helper/ada", "tag": "note", "request": "Note", "response": "Hello."}

CASES = [
    pytest.param("ada", "/conversations", {"agent": "nobody"}, 404, "unknown-agent", id="unknown agent"),
    pytest.param(
        "ada",
        "/conversations",
        {"agent": "helper", "mailbox": "helper/bob"},
        404,
        "mailbox-not-found",
        id="another's mailbox",
    ),
    pytest.param("root", "/inbox/items", {**MAIL, "mailbox": "no/such"}, 404, "item-not-found", id="unknown mailbox"),
    pytest.param("ada", "{closed}/messages", {"text": "Hello?"}, 409, "conversation-closed", id="closed conversation"),
    pytest.param("ada", "{talk}/messages", {"text": ""}, 422, "blank-text", id="empty text"),
    pytest.param("ada", "{talk}/messages", {"text": "\u3000\t"}, 422, "blank-text", id="blank text"),
    pytest.param("ada", "{talk}/messages", {"text": "x" * 65_537}, 413, "text-too-long", id="over-long text"),
    pytest.param("ada", "{talk}/messages", {"text": "\u20ac" * 21_846}, 413, "text-too-long", id="over-long in bytes"),
    pytest.param("ada", "{talk}/messages", {}, 422, "invalid", id="no text"),
    pytest.param("finance", "{item}/resolve", {"response": ""}, 422, "blank-text", id="empty answer"),
    pytest.param("finance", "{item}/resolve", {"response": "x" * 65_537}, 413, "text-too-long", id="over-long answer"),
    pytest.param("finance", "{item}/cancel", {"reason": ""}, 422, "blank-text", id="empty reason"),
    pytest.param("finance", "{answered}/resolve", {"response": "Yes."}, 409, "already-closed", id="answered item"),
    pytest.param("ada", "{item}/resolve", {"response": "Yes."}, 403, "not-allowed", id="one's own item"),
    pytest.param("bob", "{item}/resolve", {"response": "Yes."}, 404, "item-not-found", id="another's item"),
    pytest.param("bob", "{talk}/messages", {"text": "Hi."}, 404, "conversation-not-found", id="another's conversation"),
    pytest.param("wrong key", "{talk}/messages", {"text": "Hi."}, 401, "not-authenticated", id="wrong key"),
    pytest.param("nobody", "{talk}/messages", {"text": "Hi."}, 401, "not-authenticated", id="no key"),
    pytest.param("read only", "{talk}/messages", {"text": "Hi."}, 403, "scope", id="key without the scope"),
    pytest.param("nobody", "/r/" + "x" * 43, {"response": "Yes."}, 404, "link-unknown", id="wrong link"),
    pytest.param("nobody", "{used}", {"response": "Yes."}, 409, "already-closed", id="used link"),
    pytest.param("nobody", "{expired}", {"response": "Yes."}, 410, "link-gone", id="expired link"),
    pytest.param("nobody", "/hooks/nowhere", {"order": 1}, 404, "unknown-hook", id="unknown hook"),
    pytest.param("nobody", "/hooks/signed", {"order": 1}, 401, "bad-signature", id="bad signature"),
]


@pytest.fixture
def hook(monkeypatch):
    """A declared webhook whose caller never has the right signature."""
    monkeypatch.setattr(declare, "webhooks", {})

    @webhook("signed", verify=lambda request: False)
    def signed(payload):
        raise AssertionError("never called")


@pytest.mark.parametrize(("who", "path", "body", "status", "slug"), CASES)
def test_it_says_what_to_do_and_changes_nothing(world, places, hook, who, path, body, status, slug):
    caller = {
        "nobody": Caller(),
        "wrong key": Caller(key="glv_wrong"),
        "read only": by_key(world.ada, "read"),
    }.get(who) or by_key(getattr(world, who))
    before = every_row()
    found = assert_problem(caller.post(path.format(**places), body, Accept="application/json"), status, slug)
    assert every_row() == before
    assert any(words in found["detail"].lower() for words in ADVICE) or found.get("errors"), found["detail"]


def test_every_error_of_ours_has_a_status_and_a_sentence():
    """Whatever a service raises, a caller gets a sentence and a status that HTTP knows."""

    def below(kind):
        return [found for child in kind.__subclasses__() for found in (child, *below(child))]

    ours = [kind for kind in below(InboxError) if kind.__module__.split(".")[0] in ("inbox", "agents", "mesh", "demo")]
    assert len(ours) > 30
    for kind in ours:
        assert 400 <= kind.status < 600, kind
        assert kind.slug == kind.slug.lower(), kind
        assert kind.__doc__, kind
        assert kind.__doc__.rstrip().endswith((".", "?")), kind
    slugs = {}
    for kind in ours:
        slugs.setdefault(kind.slug, set()).add(kind.status)
    assert all(len(statuses) == 1 for statuses in slugs.values()), slugs
