"""What the mesh costs in queries."""

import pytest

from agents.services import conversations
from inbox.models import Item
from mesh.models import Message
from mesh.services import answering, leaving, sending
from mesh.services import peers as peer_services
from tests.agents.scripts import use
from tests.agents.test_budgets import Cost, turn_cost
from tests.factories import ItemFactory, UserFactory
from tests.mesh.kit import letters, sender

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def nobody_reads(monkeypatch):
    """A wake has a cost of its own, measured by itself."""
    monkeypatch.setattr("agents.services.waking.wake", lambda mailbox_id: 0)


@pytest.fixture
def living(peers):
    """Peers as a turn or a key has them."""
    return lambda *addresses: [peer_services.peer_of(peer.mailbox_id) for peer in peers(*addresses)]


def test_a_plain_turn_of_an_agent_on_the_mesh_is_three_transactions_and_at_most_twelve_queries(living, script):
    (a,) = living("a")
    conversation = conversations.open_conversation(a.mailbox_id)
    script("Hi.")
    conversations.say(conversation.pk, "Hello.")
    cost = turn_cost(conversation)
    assert cost.transactions == 3, "\n".join(cost.queries)
    assert cost.count <= 12, "\n".join(cost.queries)


def test_a_send_costs_the_same_whatever_was_sent_and_read_before(living, script):
    """By a turn, with a long history and a mailbox full of mail."""
    a, _ = living("a", "b")
    conversation = conversations.open_conversation(a.mailbox_id)
    call = use("glove_mesh_send_message", to="b", content="Hello.")
    costs = []
    for round_ in range(2):
        script(call, "Sent.")
        conversations.say(conversation.pk, "Go on.")
        costs.append(turn_cost(conversation).count)
        if round_ == 0:
            for n in range(30):
                sending.send(sender(a), "b", f"{n}")
            ItemFactory.create_batch(100, mailbox=a.mailbox, consumed=True)
    assert costs[1] <= costs[0] + 1  # the calls of the history are one more look-up


@pytest.mark.parametrize("recipients", [3, 40])
def test_what_a_letter_costs(living, recipients):
    a, b, *_ = living("a", "b", *[f"p{n}" for n in range(recipients - 1)])
    acts = {
        "send": (4, lambda: sending.send(sender(a), "b", "Hello.")),
        "send to all by name": (4, lambda: sending.send(sender(a), [f"p{n}" for n in range(recipients - 1)], "Hello.")),
        "broadcast": (4, lambda: sending.broadcast(sender(a), "Hello.")),
        "ask": (12, lambda: sending.send(sender(a), "b", "Well?", blocking=True)),
        "acknowledge": (9, lambda: answering.acknowledge(b, Message.objects.latest("created_at").pk)),
        "ask again": (12, lambda: sending.send(sender(a), "b", "Well?", blocking=True)),
        "reply": (
            12,
            lambda: sending.send(sender(b), [], "Well.", in_reply_to=Message.objects.latest("created_at").pk),
        ),
        "ask all": (12, lambda: sending.broadcast(sender(a), "Who?", blocking=True, quorum="all")),
    }
    for name, (most, act) in acts.items():
        with Cost() as cost:
            act()
        assert cost.transactions == 1, name
        assert cost.count <= most, (name, cost.count, cost.queries)
    assert len(letters(b)) == 5


def test_retiring_costs_the_same_for_one_wait_and_for_many(living):
    """Nobody sends while it goes on."""
    operator = UserFactory(may=["mesh.manage_mesh"])
    a, b, *others = living("a", "b", *[f"p{n}" for n in range(30)])
    operator.has_perm("mesh.manage_mesh")
    costs = []
    for askers in ([a], others):
        for asker in askers:
            sending.send(sender(asker), "b", "Well?", blocking=True)
            sending.send(sender(b), str(asker), "No, you?", blocking=True) if len(askers) < 15 else None
        with Cost() as cost:
            leaving.retire(operator, b.pk)
        costs.append(cost.count)
        assert not Item.objects.filter(status="pending").exists()
        leaving.bring_back(operator, b.pk)
    assert costs[1] <= costs[0]
