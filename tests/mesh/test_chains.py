"""Polite agents stop: hops are inherited from what was read, and a chain that runs over its budget gives one notice to staff."""

import re

import pytest

from agents.models import ToolCall
from agents.services import conversations
from mesh.errors import TooManyHops
from mesh.models import Message, StoppedChain
from mesh.services import answering, sending
from tests.agents.kit import assert_sound
from tests.agents.scripts import texts, use
from tests.factories import UserFactory
from tests.mesh.kit import conversation_of, letters, public_peer, run_all, sender, wait_of

pytestmark = pytest.mark.django_db(transaction=True)

FROM = re.compile(r"(?:Message|Broadcast) (\S+) from ([^\s,]+?)[.,](?: |$)", re.MULTILINE)


def polite(messages, tools):
    """Thanks everybody for every letter, and says nothing else."""
    said = "\n".join(block.get("text", "") for block in messages[-1]["content"])
    answers = [
        {
            "type": "tool_use",
            "name": "glove_mesh_send_message",
            "input": {"to": name, "content": "Thank you!", "in_reply_to": pk},
        }
        for pk, name in FROM.findall(said)
    ]
    return answers or "Done."


@pytest.mark.parametrize("count", [2, 3, 5])
def test_polite_agents_stop_within_the_budget(peers, settings, count):
    """Case 32."""
    settings.AGENT_MODELS = {
        "default": {"BACKEND": "agents.adapters.scripted.ScriptedModel", "OPTIONS": {"script": polite}}
    }
    settings.MESH_LIMITS = {"messages_per_minute": 10_000, "hops": 4}
    first, *_ = peers(*[f"p{n}" for n in range(count)])
    sending.broadcast(sender(first), "Good morning!")
    run_all(500)
    assert max(Message.objects.values_list("hops", flat=True)) == 4
    assert StoppedChain.objects.count() == 1
    refused = ToolCall.objects.filter(status="failed")
    assert refused.exists()
    assert all("too long" in call.result for call in refused)
    assert_sound()


def test_hops_are_inherited_without_in_reply_to(peers, settings):
    settings.MESH_LIMITS = {"hops": 2}
    a, b = peers("a", "b")
    settings.AGENT_MODELS = {
        "default": {"BACKEND": "agents.adapters.scripted.ScriptedModel", "OPTIONS": {"script": lambda *_: "Read."}}
    }
    root = sending.send(sender(a), "b", "0").message
    run_all()
    one = sending.send(sender(b, conversation_of(b).pk), "a", "1").message
    assert (one.root, one.hops) == (root.pk, 1)
    run_all()
    two = sending.send(sender(a, conversation_of(a).pk), "b", "2").message
    assert (two.root, two.hops) == (root.pk, 2)
    run_all()
    with pytest.raises(TooManyHops):
        sending.send(sender(b, conversation_of(b).pk), "a", "3")
    assert len(letters(a)) == 1


def test_a_user_message_begins_a_new_chain(worker, settings):
    settings.AGENT_MODELS = {
        "default": {"BACKEND": "agents.adapters.scripted.ScriptedModel", "OPTIONS": {"script": lambda *_: "Read."}}
    }
    ada = UserFactory()
    planner = public_peer("planner")
    conversation = conversations.open_for(ada, "worker")
    mine = conversation.mailbox.peer
    first = sending.send(sender(mine, conversation.pk), "planner", "Hello.").message
    reply = sending.send(sender(planner), str(mine), "Hello back.", in_reply_to=first.pk).message
    assert reply.hops == 1
    run_all()
    assert sending.send(sender(mine, conversation.pk), "planner", "And?").message.hops == 2
    conversations.say(conversation.pk, "Ask the planner something else.")
    run_all()
    fresh = sending.send(sender(mine, conversation.pk), "planner", "Something else.").message
    assert (fresh.hops, fresh.root) == (0, fresh.pk)


def test_a_new_chain_is_not_charged_for_an_old_one(peers, settings):
    """A planner that nobody ever speaks to goes on working for every new errand."""
    settings.AGENT_MODELS = {
        "default": {"BACKEND": "agents.adapters.scripted.ScriptedModel", "OPTIONS": {"script": lambda *_: "Read."}}
    }
    a, planner, _c = peers("a", "planner", "c")
    for errand in range(12):
        sending.send(sender(a), "planner", f"Errand {errand}.")
        run_all()
        assert sending.send(sender(planner, conversation_of(planner).pk), "c", "Do it.").message.hops == 1


def test_acknowledgements_do_not_carry_a_chain_on(peers, settings):
    """A blocking send, acknowledged, answered by another blocking send, and so on: it ends all the same."""
    settings.MESH_LIMITS = {"hops": 3}
    settings.AGENT_MODELS = {
        "default": {"BACKEND": "agents.adapters.scripted.ScriptedModel", "OPTIONS": {"script": lambda *_: "Read."}}
    }
    a, b = peers("a", "b")
    sending.send(sender(b), "a", "Begin.")
    run_all()
    with pytest.raises(TooManyHops):
        for _ in range(10):
            message = sending.send(sender(a, conversation_of(a).pk), "b", "Again?", blocking=True).message
            answering.acknowledge(b, message.pk)
            run_all()


def test_who_waits_for_an_answer_that_was_refused_is_told_and_goes_on(peers, settings):
    """By the call that was refused, and for good though the send was rolled back. The news is no message, so it begins nothing."""
    prompts = []

    def answering_once(messages, tools):
        prompts.append(str(messages))
        if not any(pk == asked.pk for pk, _ in FROM.findall(texts(messages[-1:]))):
            return "Read."
        return use("glove_mesh_send_message", to="a", content="Well.", in_reply_to=asked.pk)

    settings.MESH_LIMITS = {"hops": 1}
    settings.AGENT_MODELS = {
        "default": {"BACKEND": "agents.adapters.scripted.ScriptedModel", "OPTIONS": {"script": answering_once}}
    }
    a, b = peers("a", "b")
    first = sending.send(sender(b), "a", "Begin.").message
    asked = sending.send(sender(a), "b", "Well?", in_reply_to=first.pk, blocking=True).message
    run_all()
    wait = wait_of(asked)
    assert (wait.status, wait.outcome) == ("consumed", "undeliverable")
    assert wait.response.startswith("b answered, but the chain of messages was too long")
    assert wait.response in prompts[-1]
    assert StoppedChain.objects.get().content == "Well."
    assert Message.objects.count() == 2
    assert_sound()


@pytest.mark.parametrize(
    ("quorum", "acknowledged", "ended"),
    [("first", 0, False), (2, 0, False), (3, 0, True), (3, 2, True), ("all", 0, False), ("all", 2, True)],
)
def test_a_refused_answer_ends_a_wait_that_nobody_else_can_meet(peers, settings, quorum, acknowledged, ended):
    settings.MESH_LIMITS = {"hops": 0}
    a, *others, last = peers("a", "b", "c", "d")
    message = sending.broadcast(sender(a), "Who?", blocking=True, quorum=quorum).message
    for peer in others[:acknowledged]:
        answering.acknowledge(peer, message.pk, "I do.")
    for _ in range(2):
        with pytest.raises(TooManyHops) as error:
            sending.send(sender(last), [], "I do.", in_reply_to=message.pk)
        error.value.remember()
    assert (wait_of(message).outcome == "undeliverable") is ended
    assert len(letters(a)) == (1 if ended and acknowledged else 0)  # what the others had said
    assert_sound()


def test_a_refused_answer_changes_nothing_where_its_peer_had_acknowledged(peers, settings):
    settings.MESH_LIMITS = {"hops": 0}
    a, b, _ = peers("a", "b", "c")
    message = sending.broadcast(sender(a), "Who?", blocking=True, quorum=2).message
    answering.acknowledge(b, message.pk, "I do.")
    with pytest.raises(TooManyHops) as error:
        sending.send(sender(b), [], "I do.", in_reply_to=message.pk)
    error.value.remember()
    assert wait_of(message).status == "pending"
    assert_sound()
