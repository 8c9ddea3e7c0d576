"""The mesh over HTTP: as the peer that the key is bound to, and as no other."""

import pytest

from agents.models import Turn
from inbox.errors import NotAllowed
from inbox.services.issuing import issue_key_as
from mesh.models import Delivery, Message, StoppedChain
from mesh.services import leaving, sending
from tests.api.kit import by_key, by_session, person
from tests.factories import UserFactory
from tests.mesh.kit import letters, public_peer, sender, wait_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def erp(worker):
    """An outside peer with its key."""
    peer = public_peer("erp", agent="")
    return by_key(person("robot"), "mesh", peer=peer.mailbox)


def problem(response, status, slug):
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["type"] == f"urn:glove:problem:{slug}"


def test_it_sends_acknowledges_and_reads_as_its_peer(erp, peers):
    a, *_ = peers("a")
    sent = erp.post("/mesh/messages", {"to": "a", "content": "An order.", "blocking": True})
    assert sent.status_code == 201
    (receipt,) = sent.json()["deliveries"]
    assert (receipt["to"], receipt["status"], receipt["read_at"]) == ("a", "delivered", None)
    message = Message.objects.get(pk=sent.json()["id"])
    assert str(message.sender) == "erp"

    sending.send(sender(a), "erp", "Shipped.", in_reply_to=message.pk)
    assert wait_of(message).response == "Shipped."
    (got,) = erp.get("/mesh/messages").json()["items"]
    assert (got["sender"], got["content"], got["in_reply_to"]) == ("a", "Shipped.", message.pk)
    assert erp.post(f"/mesh/messages/{got['id']}/ack", {"note": "Thanks."}).status_code == 200
    (mine,) = erp.get(f"/mesh/messages/{message.pk}").json()["deliveries"]
    assert mine["acknowledged_at"] is not None


def test_an_addressee_sees_its_own_receipt_only(erp, peers):
    a, *_ = peers("a", "b")
    message = sending.broadcast(sender(a), "All.").message
    assert Delivery.objects.filter(message=message).count() == 2
    seen = erp.get(f"/mesh/messages/{message.pk}").json()
    assert [delivery["to"] for delivery in seen["deliveries"]] == ["erp"]


def test_a_sender_sees_how_its_wait_ended_and_nobody_else_does(erp, peers):
    (a,) = peers("a")
    sent = erp.post("/mesh/messages", {"to": "a", "content": "An order.", "blocking": True}).json()
    wait = erp.get(f"/mesh/messages/{sent['id']}").json()["wait"]
    assert (wait["status"], wait["outcome"], wait["response"]) == ("pending", "", "")
    assert wait["due_at"]
    leaving.retire(UserFactory(is_superuser=True), a.pk)
    wait = erp.get(f"/mesh/messages/{sent['id']}").json()["wait"]
    assert (wait["status"], wait["outcome"]) == ("resolved", "undeliverable")
    assert wait["response"]
    (b,) = peers("b")
    theirs = sending.send(sender(b), "erp", "Yours?", blocking=True).message
    assert erp.get(f"/mesh/messages/{theirs.pk}").json()["wait"] is None
    plain = erp.post("/mesh/messages", {"to": "b", "content": "News."}).json()
    assert erp.get(f"/mesh/messages/{plain['id']}").json()["wait"] is None


def test_what_is_refused_changes_nothing(erp, peers):
    a, _ = peers("a", "b")
    others = sending.send(sender(a), "b", "A secret.").message
    problem(erp.get(f"/mesh/messages/{others.pk}"), 404, "message-not-found")
    problem(erp.post(f"/mesh/messages/{others.pk}/ack", {}), 404, "message-not-found")
    problem(erp.post("/mesh/messages", {"to": "nobody", "content": "Hi."}), 404, "unknown-peer")
    problem(erp.post("/mesh/messages", {"to": "a", "content": " "}), 422, "blank-text")
    problem(erp.post("/mesh/messages", {"to": "a", "content": "Hi.", "from": "b"}), 422, "invalid")
    problem(erp.post("/mesh/messages", {"content": "Hi.", "topic": "tides"}), 422, "nobody-to-reach")
    problem(by_session(person("ada")).get("/mesh/peers"), 403, "not-a-peer")
    problem(by_key(person("bob"), "read").get("/mesh/peers"), 403, "scope")
    assert Message.objects.count() == 1


def test_what_names_nobody_is_no_wish_to_write_to_everyone(erp, peers):
    """It is what a program sends that did not find its recipient."""
    a, _ = peers("a", "b")
    for name, empty in (("to", None), ("topic", None), ("topic", ""), ("capability", "")):
        refused = erp.post("/mesh/messages", {name: empty, "content": "A secret."})
        problem(refused, 422, "nobody-to-reach")
        assert f"`{name}` is there and names nobody" in refused.json()["detail"]
    assert not Message.objects.exists()
    asked = sending.send(sender(a), "erp", "Well?").message
    for more, count in (
        ({}, 2),
        ({"to": None, "capability": "work"}, 2),
        ({"to": None, "in_reply_to": asked.pk}, 1),
    ):
        sent = erp.post("/mesh/messages", {"content": "Well.", **more})
        assert len(sent.json()["deliveries"]) == count


def test_one_idempotency_key_is_one_message(erp, peers):
    """Case 31."""
    a, *_ = peers("a")
    letter = {"to": ["a", "A"], "content": "Once."}
    first = erp.post("/mesh/messages", letter, Idempotency_Key="k1")
    again = erp.post("/mesh/messages", letter, Idempotency_Key="k1")
    assert first.json()["id"] == again.json()["id"]
    assert len(letters(a)) == 1
    problem(
        erp.post("/mesh/messages", {**letter, "content": "Twice."}, Idempotency_Key="k1"), 422, "idempotency-mismatch"
    )


def test_a_chain_over_its_budget_is_refused_and_noticed_once(erp, peers, settings):
    settings.MESH_LIMITS = {"hops": 0}
    a, *_ = peers("a")
    message = sending.send(sender(a), "erp", "Well?", blocking=True).message
    for key in ("k1", "k2", None):
        headers = {"Idempotency_Key": key} if key else {}
        answer = erp.post("/mesh/messages", {"content": "Well.", "in_reply_to": message.pk}, **headers)
        problem(answer, 409, "too-many-hops")
    assert StoppedChain.objects.get().root == message.pk
    assert Message.objects.count() == 1
    assert wait_of(message).outcome == "undeliverable"
    assert Turn.objects.get().status == "queued"  # its agent is woken, as by every end of a wait


def test_peers_are_listed_and_filtered(erp, worker):
    public_peer("planner", capabilities=["plan"])
    public_peer("hidden", public=False)
    names = lambda query: [peer["name"] for peer in erp.get(f"/mesh/peers{query}").json()["items"]]  # noqa: E731
    assert names("") == ["planner"]
    assert names("?capability=plan") == ["planner"]
    assert names("?capability=roast") == []
    assert names("?name=LANN") == ["planner"]


def test_staff_look_after_the_peers(worker):
    """Listed, filtered, retired and brought back; by whoever may, and nobody else."""
    mine = public_peer("worker/ada", owner=person("owner"), public=False)
    public_peer("planner")
    boss = by_session(person("boss", "mesh.view_peer", "mesh.manage_mesh"))
    viewer = by_key(person("viewer", "mesh.view_peer"), "mesh")
    names = lambda caller, query="": {peer["name"] for peer in caller.get(f"/mesh/peers{query}").json()["items"]}  # noqa: E731
    assert names(boss) == names(viewer) == {"worker/ada", "planner"}
    assert viewer.post(f"/mesh/peers/{mine.pk}/retire").status_code == 403
    assert boss.post(f"/mesh/peers/{mine.pk}/retire").json()["retired_at"]
    assert (names(boss, "?retired=true"), names(boss, "?retired=false")) == ({"worker/ada"}, {"planner"})
    assert boss.post(f"/mesh/peers/{mine.pk}/bring-back").json()["retired_at"] is None
    problem(boss.post("/mesh/peers/777/retire"), 404, "unknown-peer")
    problem(by_session(person("eve")).post(f"/mesh/peers/{mine.pk}/retire"), 403, "not-allowed")


def test_a_key_that_speaks_for_a_peer_takes_nobody_off(peers):
    """Whatever its user may: it is in the hands of a program outside."""
    a, b = peers("a", "b")
    key = by_key(person("root", is_superuser=True), "mesh", peer=a.mailbox)
    for act in ("retire", "bring-back"):
        problem(key.post(f"/mesh/peers/{b.pk}/{act}"), 403, "not-allowed")
    b.refresh_from_db()
    assert b.retired_at is None


def test_a_key_that_speaks_for_a_peer_sees_as_that_peer_whatever_its_user_may(worker):
    peer = public_peer("erp", agent="")
    hidden = public_peer("hidden", public=False)
    robot = by_key(person("robot", "mesh.view_peer", "mesh.manage_mesh"), "mesh", peer=peer.mailbox)
    assert robot.get("/mesh/peers").json()["items"] == []
    problem(robot.post(f"/mesh/peers/{hidden.pk}/retire"), 404, "unknown-peer")


def test_a_retired_peers_key_opens_nothing(erp, peers):
    """Promise 17: the key is bound to the peer, and the peer is gone."""
    a, *_ = peers("a")
    message = sending.send(sender(a), "erp", "Well?").message
    leaving.retire(UserFactory(may=["mesh.manage_mesh"]), message.deliveries.get().recipient_id)
    for call in (
        lambda: erp.get("/mesh/peers"),
        lambda: erp.get("/mesh/messages"),
        lambda: erp.get(f"/mesh/messages/{message.pk}"),
        lambda: erp.post(f"/mesh/messages/{message.pk}/ack", {}),
        lambda: erp.post("/mesh/messages", {"to": "a", "content": "Hi."}),
    ):
        problem(call(), 403, "not-a-peer")


def test_what_belongs_to_a_broadcast_alone_is_not_dropped_in_silence(erp, peers):
    peers("a", "b")
    for more in ({"topic": "stock"}, {"capability": "work"}, {"quorum": 2, "blocking": True}):
        problem(erp.post("/mesh/messages", {"to": ["a", "b"], "content": "Hi.", **more}), 422, "not-a-broadcast")
    assert not Message.objects.exists()
    sent = erp.post("/mesh/messages", {"content": "All.", "blocking": True, "quorum": 2, "capability": "work"})
    assert len(sent.json()["deliveries"]) == 2


def test_an_acknowledgement_by_a_peer_outside_is_its_reading(erp, peers):
    a, *_ = peers("a")
    message = sending.send(sender(a), "erp", "An order.").message
    assert erp.get("/mesh/messages").json()["items"][0]["deliveries"][0]["read_at"] is None
    for _ in range(2):  # reading the list is not
        (seen,) = erp.post(f"/mesh/messages/{message.pk}/ack", {"note": "Taken."}).json()["deliveries"]
        assert (seen["note"], seen["read_at"] is not None, seen["read_in"]) == ("Taken.", True, None)


def test_nobody_gives_away_a_key_to_a_peer_that_is_not_hers(worker):
    """Promise 17: who may issue keys does not by that speak for the site's agents."""
    planner = public_peer("planner")
    clerk, boss = person("clerk", "inbox.add_apikey"), person("boss", "inbox.add_apikey", "mesh.manage_mesh")
    mine = public_peer("worker/clerk", owner=clerk)
    for user, peer in ((clerk, planner), (boss, mine)):
        with pytest.raises(NotAllowed):
            issue_key_as(user, "mine", owner=user, peer=peer.mailbox)
    for user, peer in ((clerk, mine), (boss, planner)):
        key, _ = issue_key_as(user, "mine", owner=user, peer=peer.mailbox)
        assert key.peer_id == peer.mailbox_id
