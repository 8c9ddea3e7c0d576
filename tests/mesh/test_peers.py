"""Who is on the mesh: by declaration, as a mailbox is opened, or registered by staff; and whom a peer sees."""

import logging

import pytest

from agents import Agent, registry
from inbox.errors import AddressTaken, BadAddress, NotAllowed
from inbox.models import Mailbox
from inbox.services.mailboxes import open_mailbox
from mesh import peer
from mesh.errors import BadPeer, NotAPeer, UnknownPeer
from mesh.models import Peer
from mesh.services import joining, leaving, sending
from mesh.services import peers as peer_services
from tests.factories import UserFactory
from tests.mesh.kit import letters, public_peer, sender

pytestmark = pytest.mark.django_db(transaction=True)


# --- Declared
def test_a_declared_address_exists_after_a_sync(worker):
    from mesh import peer

    peer("planner", agent="worker", public=True, topics=["plans"], capabilities=["plan"])
    joining.sync()
    joining.sync()
    planner = peer_services.peer_of(Mailbox.objects.get(address="planner").pk)
    assert (planner.public, planner.mailbox.owner_id) == (True, None)
    assert [row.topic for row in planner.subscriptions.all()] == ["plans"]
    assert [row.name for row in planner.capabilities.all()] == ["plan"]


def test_a_mailbox_of_an_agent_on_the_mesh_becomes_a_peer_when_it_is_opened(worker):
    mailbox = open_mailbox("worker/ada", agent="worker", owner=UserFactory())
    assert peer_services.peer_of(mailbox.pk).description == "Works."


def test_staff_have_the_last_word_over_a_declaration(worker):
    """It is written once: who may see it and its topics stay as staff left them, also where the mailbox was there before, or is
    written in other letters."""
    open_mailbox("Planner", agent="worker")
    peer("planner", agent="worker", public=True, topics=["plans"])
    joining.sync()
    planner = Peer.objects.get()
    assert (planner.public, planner.subscriptions.count()) == (True, 1)
    operator = UserFactory(may=["mesh.manage_mesh"])
    leaving.unsubscribe(operator, planner.pk, "plans")
    Peer.objects.update(public=False)
    joining.sync()
    planner.refresh_from_db()
    assert (planner.public, planner.subscriptions.count()) == (False, 0)


def test_a_declared_address_exists_from_the_first_letter_on(worker, peers):
    (a,) = peers("a")
    peer("planner", agent="worker", public=True)
    sending.send(sender(a), "Planner", "Hello.")
    assert [letter.response for letter in letters(Peer.objects.get(mailbox__address="planner"))] == ["Hello."]


@pytest.mark.parametrize("trouble", ["owned by another", "of another agent", "of an agent that is not declared"])
def test_a_declared_address_that_cannot_be_had_stops_nobody(worker, peers, caplog, trouble):
    """An error in the log; the others are made, and for whoever writes to it there is no such peer."""
    (a,) = peers("a")
    if trouble == "owned by another":
        open_mailbox("planner", agent="worker", owner=UserFactory())
    elif trouble == "of another agent":
        open_mailbox("planner", agent="somebody")
    peer("planner", agent="gone" if "not declared" in trouble else "worker", public=True)
    peer("roaster", agent="worker", public=True)
    with caplog.at_level(logging.ERROR):
        joining.sync()
    assert "The peer planner, which is declared, cannot be made" in caplog.text
    assert Peer.objects.filter(mailbox__address="roaster", public=True).exists()
    with pytest.raises(UnknownPeer):
        sending.send(sender(a), "planner", "Hello.")


@pytest.mark.parametrize(
    "given",
    [
        {"capabilities": [""]},
        {"topics": ["x" * 101]},
        {"topics": ["a\x00b"]},
        {"metadata": {"at": object()}},
        {"metadata": {"share": float("nan")}},
    ],
)
def test_what_cannot_be_shown_to_others_is_not_declared(given):
    with pytest.raises(BadPeer):
        peer("planner", **given)
    assert not joining.declared


def test_an_address_is_declared_once():
    peer("planner")
    with pytest.raises(BadPeer):
        peer("Planner")
    with pytest.raises(BadAddress):
        peer("not an address")


# --- Agents
def test_what_an_agent_says_of_itself_is_brought_up_to_date(worker, peers):
    a, b = peers("a", "b")
    declared = peer("planner", agent="worker", description="Plans.", capabilities=["plan"])
    joining.sync()
    registry.agents.pop("worker")
    Agent("worker", instructions="Work.", mesh=True, capabilities=["work", "rest"], description="Works and rests.")
    for _ in range(2):
        joining.sync()
        for one in (a, b):
            one.refresh_from_db()
            assert one.description == "Works and rests."
            assert {capability.name for capability in one.capabilities.all()} == {"work", "rest"}
    planner = Peer.objects.get(mailbox__address=declared.address)
    assert (planner.description, [row.name for row in planner.capabilities.all()]) == ("Plans.", ["plan"])


def test_mailboxes_that_were_opened_before_join_with_the_next_sync(worker):
    mailbox = Mailbox.objects.bulk_create([Mailbox(address="worker/old", agent="worker")])[0]
    with pytest.raises(NotAPeer):
        peer_services.peer_of(mailbox.pk)
    joining.sync()
    assert peer_services.peer_of(mailbox.pk).description == "Works."


def test_who_is_no_longer_declared_stays_and_is_told_of(worker, peers, caplog):
    """A letter to it is not lost, but it has no tools to answer: that is somebody's to know, and to retire it."""
    peer("planner", agent="worker", public=True)
    joining.sync()
    (a,) = peers("worker/ada", public=True)
    assert "no longer declared" not in caplog.text
    registry.agents.pop("worker")
    Agent("worker", instructions="Work.")
    joining.sync()
    assert "On the mesh, but no longer declared: worker/ada." in caplog.text
    sending.send(sender(Peer.objects.get(mailbox__address="planner")), "worker/ada", "Hello.")
    leaving.retire(UserFactory(may=["mesh.manage_mesh"]), a.pk)
    caplog.clear()
    joining.declared.clear()
    joining.sync()
    assert "no longer declared: planner." in caplog.text


# --- Outside
def test_an_outside_peer_is_registered_once():
    operator = UserFactory(may=["mesh.manage_mesh"])
    erp = joining.register_outside(operator, "erp", description="Orders.", capabilities=["order"], public=True)
    assert (erp.mailbox.agent, erp.public) == ("", True)
    with pytest.raises(BadPeer):
        joining.register_outside(operator, "ERP")
    open_mailbox("planner", agent="worker")
    with pytest.raises(AddressTaken):
        joining.register_outside(operator, "planner")
    with pytest.raises(NotAllowed):
        joining.register_outside(UserFactory(), "till")
    assert Peer.objects.count() == 1


# --- Whom one sees
def test_whom_one_sees(worker):
    """The same owner's peers, public ones without an owner, and whoever wrote to one."""
    ada, bob = UserFactory(), UserFactory()
    mine, sister, other = (
        public_peer(f"worker/{name}", owner=owner, public=False)
        for name, owner in (("ada", ada), ("ada/two", ada), ("bob", bob))
    )
    public, hidden = public_peer("planner"), public_peer("secret", public=False)
    seen = set(peer_services.visible_to(mine))
    assert seen == {sister, public}
    # The planner may answer whoever wrote to it, and sees nobody else.
    sending.send(sender(mine), "planner", "Hello.")
    assert set(peer_services.visible_to(public)) == {mine}
    assert other not in seen
    assert hidden not in seen
    with pytest.raises(UnknownPeer):
        sending.send(sender(public), "worker/bob", "Hello.")


def test_near_misses_are_named_among_those_that_one_may_see(peers):
    a, *_ = peers("a", "planner")
    public_peer("plannar", public=False)
    with pytest.raises(UnknownPeer) as error:
        sending.send(sender(a), "plannr", "Hello.")
    assert "planner" in str(error.value)
    assert "plannar" not in str(error.value)
    with pytest.raises(UnknownPeer, match="glove_mesh_list_agents, or GET /api/v1/mesh/peers over HTTP"):
        sending.send(sender(a), "zzz", "Hello.")


def test_seeing_and_writing_to_are_the_same(worker):
    """For every pair of a mixed company: who is in the list can be written to, and nobody else."""
    ada, bob = UserFactory(), UserFactory()
    company = [
        public_peer(f"p{n}", owner=owner, public=public)
        for n, (owner, public) in enumerate(
            (owner, public) for owner in (ada, bob, None) for public in (True, False) * 2
        )
    ]
    leaving.retire(UserFactory(may=["mesh.manage_mesh"]), company[-1].pk)
    sending.send(sender(company[0]), "p8", "Hello.")  # p8 is public and ownerless, and may answer now
    for one in company[:-1]:
        seen = set(peer_services.visible_to(one))
        for other in company:
            look = peer_services.hot.begin(one, [str(other)])
            try:
                peer_services.recipient(one, look, str(other))
            except UnknownPeer:
                assert other not in seen, (one, other)
            else:
                assert other in seen, (one, other)
    assert company[0] in peer_services.visible_to(company[8])
    assert company[1] not in peer_services.visible_to(company[8])
