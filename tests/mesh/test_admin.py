"""The mesh in the admin: what staff see, and that every act asks first and goes through the service."""

import pytest
from django.contrib.admin.models import LogEntry
from django.db import OperationalError
from django.test import Client
from django.urls import reverse

from agents import Agent
from agents.models import Turn
from mesh import declare
from mesh.models import Delivery, Peer, StoppedChain
from mesh.services import answering, delivering, joining, leaving, sending
from tests.factories import UserFactory
from tests.mesh.kit import public_peer, run_all, sender

pytestmark = pytest.mark.django_db(transaction=True)
VIEW = [f"mesh.view_{name}" for name in ("peer", "message", "delivery", "stoppedchain")]


@pytest.fixture
def operator():
    client = Client()
    client.force_login(UserFactory(may=[*VIEW, "mesh.manage_mesh"], is_staff=True))
    return client


@pytest.fixture
def viewer():
    client = Client()
    client.force_login(UserFactory(may=VIEW, is_staff=True))
    return client


def test_receipts_show_what_became_of_a_message(operator, peers):
    a, b, _ = peers("a", "b", "c")
    message = sending.broadcast(sender(a), "<b>Who?</b>", blocking=True).message
    answering.acknowledge(b, message.pk, "Me <script>alert(1)</script>.")
    page = operator.get(reverse("admin:mesh_message_change", args=[message.pk])).content.decode()
    assert "&lt;b&gt;Who?&lt;/b&gt;" in page
    assert "<b>Who?" not in page
    assert "<script>alert(1)" not in page
    assert page.count("delivered") >= 2


def test_receipts_say_in_which_turn_a_message_was_read(viewer, peers):
    a, *_ = peers("a", "b")
    message = sending.send(sender(a), "b", "Well?").message
    url = reverse("admin:mesh_message_change", args=[message.pk])
    assert "in turn" not in viewer.get(url).content.decode()
    run_all()
    turn = Turn.objects.get()
    said = lambda client: " ".join(client.get(url).content.decode().split())  # noqa: E731
    assert f"in turn {turn.pk} </td>" in said(viewer)
    sees_turns = Client()
    sees_turns.force_login(UserFactory(may=[*VIEW, "agents.view_turn"], is_staff=True))
    link = reverse("admin:agents_turn_change", args=[turn.pk])
    assert f'in turn <a href="{link}">{turn.pk}</a>' in said(sees_turns)


def test_a_peer_is_retired_and_brought_back_after_a_question(operator, peers):
    (a,) = peers("a")
    for act, retired in (("retire", True), ("bring_back", False)):
        url = reverse(f"admin:mesh_peer_{act}", args=[a.pk])
        assert operator.get(url).status_code == 200
        assert (Peer.objects.get(pk=a.pk).retired_at is not None) is not retired
        assert operator.post(url).status_code == 302
        assert (Peer.objects.get(pk=a.pk).retired_at is not None) is retired
    assert LogEntry.objects.count() == 2


def test_an_outside_peer_is_registered_and_subscribed(operator):
    form = {"address": "erp", "description": "Orders.", "capabilities": "order, invoice", "public": "on"}
    assert operator.post(reverse("admin:mesh_peer_add"), form).status_code == 302
    erp = Peer.objects.get(mailbox__address="erp")
    assert {row.name for row in erp.capabilities.all()} == {"order", "invoice"}
    url = reverse("admin:mesh_peer_subscribe", args=[erp.pk])
    assert operator.post(url, {"topic": "stock"}).status_code == 302
    assert operator.post(url, {"topic": " "}).status_code == 422
    gone = reverse("admin:mesh_peer_unsubscribe", args=[erp.pk]) + "?topic=stock"
    assert operator.get(gone).status_code == 200
    assert erp.subscriptions.count() == 1
    operator.post(gone)
    assert erp.subscriptions.count() == 0
    assert operator.post(reverse("admin:mesh_peer_add"), {"address": "not an address"}).status_code == 422


def test_dead_deliveries_are_sent_again_or_closed(operator, peers, settings):
    settings.MESH_TRANSPORTS = {"default": {"BACKEND": "mesh.transports.memory.MemoryTransport", "OPTIONS": {}}}
    a, b = peers("a", "b")
    manager = UserFactory(may=["mesh.manage_mesh"])
    for text in ("One.", "Two."):
        sending.send(sender(a), "b", text)
    one, two = Delivery.objects.order_by("pk")
    for row in (one, two):
        delivering.bury(row.pk, "lost on the way")
    page = operator.get(reverse("admin:mesh_delivery_change", args=[one.pk])).content.decode()
    assert "lost on the way" in page
    operator.post(reverse("admin:mesh_delivery_again", args=[one.pk]))
    operator.post(reverse("admin:mesh_delivery_close", args=[two.pk]))
    one.refresh_from_db()
    two.refresh_from_db()
    assert one.status == "delivered"
    assert (two.status, two.closed_at is not None) == ("dead", True)
    assert leaving.retire(manager, b.pk).retired_at


def test_who_may_only_look_changes_nothing(viewer, peers):
    (a,) = peers("a")
    assert viewer.get(reverse("admin:mesh_peer_change", args=[a.pk])).status_code == 200
    for act in ("retire", "bring_back", "subscribe", "unsubscribe"):
        url = reverse(f"admin:mesh_peer_{act}", args=[a.pk])
        assert viewer.get(url).status_code == 403
        assert viewer.post(url, {"topic": "x"}).status_code == 403
    assert viewer.post(reverse("admin:mesh_peer_add"), {"address": "erp"}).status_code == 403
    assert Peer.objects.count() == 1


def test_a_stranger_sees_nothing(peers):
    (a,) = peers("a")
    public_peer("b")
    client = Client()
    client.force_login(UserFactory(is_staff=True))
    for name in ("peer", "message", "delivery", "stoppedchain"):
        assert client.get(reverse(f"admin:mesh_{name}_changelist")).status_code == 403
    assert client.get(reverse("admin:mesh_peer_change", args=[a.pk])).status_code == 403


def test_what_needs_attention_stands_on_the_first_page_until_staff_took_note(operator, viewer, peers):
    a, _ = peers("a", "b")
    sending.send(sender(a), "b", "Hello?")
    Delivery.objects.update(status="dead", reason="lost on the way", delivered_at=None, item=None)
    chain = StoppedChain.objects.create(root="01990000-0000-7000-8000-000000000001", sender=a, content="And so on.")
    index = reverse("admin:index")
    for client in (operator, viewer):
        page = client.get(index).content.decode()
        assert "Dead deliveries: 1" in page
        assert "Stopped chains: 1" in page
    see = reverse("admin:mesh_stoppedchain_see", args=[chain.pk])
    assert viewer.post(see).status_code == 403
    assert operator.get(see).status_code == 200
    assert "Stopped chains: 1" in operator.get(index).content.decode()
    for _ in range(2):
        assert operator.post(see).status_code == 302
    operator.post(reverse("admin:mesh_delivery_close", args=[Delivery.objects.get().pk]))
    page = operator.get(index).content.decode()
    assert "Dead deliveries" not in page
    assert "Stopped chains:" not in page
    chain.refresh_from_db()
    assert chain.seen_by is not None
    assert sorted(LogEntry.objects.values_list("change_message", flat=True)) == ["Closed.", "Seen."]


def test_lists_are_filtered(operator, peers):
    a, b = peers("a", "b")
    public_peer("roaster", capabilities=["work"])
    leaving.retire(UserFactory(may=["mesh.manage_mesh"]), b.pk)
    sending.broadcast(sender(a), "All.")
    sending.send(sender(a), "roaster", "Well?", blocking=True)
    count = lambda path: operator.get(f"/admin/mesh/{path}").context["cl"].result_count  # noqa: E731
    assert [count(f"peer/?retired={choice}") for choice in ("yes", "no")] == [1, 2]
    assert count("peer/?capability=work") == 3
    assert count("message/?kind__exact=broadcast") == 1
    assert count("message/?blocking__exact=1") == 1
    assert count("delivery/?attention=yes") == 0
    assert count("delivery/?status__exact=delivered") == 2
    assert count("stoppedchain/?seen=no") == 0


def test_peers_are_filtered_by_what_their_agent_can_do(operator, peers):
    """Also of one whose mailboxes are not on the mesh, but for the address that is declared."""
    Agent("checker", instructions="Check.", capabilities=["check"])
    for address, options in (("checker", {}), ("taster", {"capabilities": ["taste"]}), ("lost", {"agent": "nobody"})):
        declare.peer(address, **{"agent": "checker", **options})
    joining.sync()
    page = operator.get("/admin/mesh/peer/?capability=check")
    assert page.context["cl"].result_count == 1
    assert all(f"?capability={name}" in page.content.decode() for name in ("check", "taste", "work"))


def test_a_topic_that_cannot_be_one_is_said_and_not_a_fault(operator, peers):
    (a,) = peers("a")
    for topic in ("", "%00", "x" * 200):
        url = reverse("admin:mesh_peer_unsubscribe", args=[a.pk]) + f"?topic={topic}"
        assert operator.get(url).status_code == 200
        assert operator.post(url).status_code == 302
    assert operator.post(reverse("admin:mesh_peer_subscribe", args=[a.pk]), {"topic": "a\x00b"}).status_code == 422


def test_a_mesh_that_is_busy_is_said(operator, peers, monkeypatch):
    (a,) = peers("a")

    def waits():
        raise OperationalError("canceling statement due to lock timeout")

    monkeypatch.setattr(leaving.locks, "alone", waits)
    page = operator.post(reverse("admin:mesh_peer_retire", args=[a.pk]), follow=True).content.decode()
    assert "Try again." in page
    assert Peer.objects.get(pk=a.pk).retired_at is None


def test_what_agents_wait_for_from_each_other_is_not_for_people_to_answer(peers):
    """It is among all that is pending, and where one asks for its tag: staff may answer for an agent that does not."""
    staff = Client()
    staff.force_login(UserFactory(may=["inbox.view_item", "inbox.resolve_item"], is_staff=True))
    a, _ = peers("a", "b")
    message = sending.send(sender(a), "b", "When will it rain?", blocking=True).message
    queue = reverse("admin:inbox_item_changelist")
    shown = {
        query: "When will it rain?" in staff.get(queue + query).content.decode()
        for query in ("", "?tab=pending", "?tag=mesh:*", f"?q=%23{message.wait_id}")
    }
    assert shown == {"": False, "?tab=pending": True, "?tag=mesh:*": True, f"?q=%23{message.wait_id}": True}
