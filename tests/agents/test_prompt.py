"""The prompt and its validator: whatever happened in a conversation, the provider is sent what it takes, or the turn fails by name.

`agents.testing.rules.breach` is the judge: the provider's own rules, written apart from our validator.
"""

import copy
import json

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents import ToolContext, tool
from agents.adapters.base import ModelError
from agents.entries import Call, Entry, History
from agents.errors import AgentsError
from agents.models import Message, Turn
from agents.prompt import InvalidPrompt, build, shortened, validate
from agents.services import turns
from agents.services.conversations import cancel, retry, say
from agents.testing.rules import breach
from inbox.models import Item
from inbox.services import items
from tests.agents.kit import assert_sound, last_turn, open_turn, run_queued
from tests.agents.scripts import use
from tests.factories import ConversationFactory, ItemFactory, MessageFactory, backdate


def judge(messages):
    """What the provider would say of this prompt: nothing, or the rule that it breaks."""
    return breach({"model": "m", "max_tokens": 1, "system": "", "tools": [], "messages": messages})


def text(said="Hello."):
    return {"type": "text", "text": said}


def asked(*ids):
    return {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": one, "name": "work", "input": {}} for one in ids],
    }


def told(*ids, more=()):
    results = [{"type": "tool_result", "tool_use_id": one, "content": "Done."} for one in ids]
    return {"role": "user", "content": [*results, *more]}


USER = {"role": "user", "content": [text()]}
AGENT = {"role": "assistant", "content": [text("Hi.")]}
VALID = [USER, asked("a", "b"), told("a", "b", more=[text()]), AGENT, USER]


# --- The validator
@pytest.mark.parametrize("messages", [[USER], VALID, [USER, asked("a"), told("a"), asked("b"), told("b")]])
def test_what_is_valid(messages):
    validate(messages)
    assert judge(messages) == ""


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [AGENT],
        [AGENT, USER],
        [USER, AGENT],
        [USER, USER],
        [USER, AGENT, AGENT, USER],
        [USER, {"role": "assistant", "content": []}, USER],
        [{"role": "user", "content": []}],
        [USER, asked("a"), USER],
        [USER, asked("a", "b"), told("a")],
        [USER, asked("a"), told("a", "b")],
        [USER, asked("a"), told("a", "a")],
        [USER, asked("a"), told("b")],
        [USER, asked("a", "a"), told("a", "a")],
        [USER, asked("a"), told("a"), asked("a"), told("a")],
        [{**asked("a"), "role": "user"}, asked("b"), told("b")],
        [{**asked("a"), "role": "user"}, {**told("a"), "role": "assistant"}, USER],
        [told("a")],
        [USER, AGENT, told("a")],
        [USER, asked("a")],
        [USER, asked("a"), {"role": "user", "content": [text(), *told("a")["content"]]}],
        [USER, asked("a"), {"role": "user", "content": [told("a")["content"][0], text(), told("a")["content"][0]]}],
        [{"role": "user", "content": [text("")]}],
        [{"role": "user", "content": [text(" \n")]}],
        [USER, {"role": "assistant", "content": [text("\u200b")]}, USER],
        [USER, {"role": "system", "content": [text()]}, USER],
    ],
)
def test_what_is_not(messages):
    with pytest.raises(InvalidPrompt) as refused:
        validate(messages)
    assert len(str(refused.value)) > 10


# Broken at random: what our validator lets through, the provider takes too.
@given(st.data())
def test_a_prompt_that_passes_breaks_no_rule_of_the_provider(data):
    messages = copy.deepcopy(VALID)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(messages) - 1)) if messages else 0
        match data.draw(st.sampled_from(["drop", "twice", "swap", "blocks", "role", "rename"])):
            case "drop" if messages:
                del messages[place]
            case "twice" if messages:
                messages.insert(place, copy.deepcopy(messages[place]))
            case "swap" if messages:
                messages[place], messages[-1] = messages[-1], messages[place]
            case "blocks" if messages and messages[place]["content"]:
                blocks = messages[place]["content"]
                messages[place]["content"] = data.draw(st.lists(st.sampled_from(blocks), max_size=4))
            case "role" if messages:
                messages[place]["role"] = data.draw(st.sampled_from(["user", "assistant"]))
            case "rename" if messages:
                for block in messages[place]["content"]:
                    for key in ("id", "tool_use_id"):
                        if key in block:
                            block[key] = data.draw(st.sampled_from("abc"))
    try:
        validate(messages)
    except InvalidPrompt:
        return
    assert judge(messages) == ""


# --- Building
def test_the_ids_of_an_earlier_reply_are_told_apart():
    """A provider that counts ids anew in each reply, or a history from elsewhere: no prompt is refused for it."""

    def reply(*ids):
        blocks = [{"type": "tool_use", "id": one, "name": "work", "input": {}} for one in ids]
        calls = [Call(one, "work", "{}", "done", f"Of {one}.", 1) for one in ids]
        return Entry("agent", "", blocks=json.dumps(blocks), calls=calls)

    entries = [Entry("user", "Go."), reply("a"), reply("a", "a_2"), reply("b", "a")]
    messages = build(History(entries))
    validate(messages)
    assert judge(messages) == ""
    found = [(one["tool_use_id"], one["content"]) for message in messages[2::2] for one in message["content"]]
    assert found == [("a", "Of a."), ("a_2", "Of a."), ("a_2_2", "Of a_2."), ("b", "Of b."), ("a_3", "Of a.")]


STATES = ["done", "failed", "denied", "aborted", "unknown"]
TEXTS = st.sampled_from(["Hello.", "x" * 50, "[[mail 1 item 2]]", "naïve 日本"])
RESULTS = st.sampled_from(["Done.", "", " ", "\u200b", "x" * 50])
CALLS = st.lists(st.tuples(st.sampled_from(STATES), RESULTS), min_size=1, max_size=3)


@st.composite
def histories(draw):
    """A history as turns leave it: user entries, then an agent's, with finished calls or without; each id once."""
    entries, number = [], 0
    for _ in range(draw(st.integers(1, 4))):
        for _ in range(draw(st.integers(1, 3))):
            entries.append(Entry("user", draw(TEXTS), draw(st.sampled_from(["message", "inbox", "summary", "notice"]))))
        for _ in range(draw(st.integers(0, 2))):
            made = [Call(f"c{(number := number + 1)}", "work", "{}", state, result) for state, result in draw(CALLS)]
            uses = [{"type": "tool_use", "id": call.call_id, "name": "work", "input": {}} for call in made]
            entries.append(Entry("agent", "", "message", json.dumps([text("Let me."), *uses]), made))
        if draw(st.booleans()):
            entries.append(Entry("agent", "Hi."))
            entries.append(Entry("user", "And?"))
    return entries


REQUESTS = st.lists(st.builds(Item, id=st.integers(1, 9), tag=st.just("a"), request=TEXTS), max_size=2)


@given(histories(), REQUESTS)
def test_every_finished_history_makes_a_valid_prompt(entries, requests):
    messages = build(History(entries, requests))
    validate(messages)
    assert judge(messages) == ""
    assert sum("Reminder: you said" in str(message) for message in messages) == bool(requests)
    for call in (call for entry in entries for call in entry.calls):
        (said,) = [
            block for message in messages for block in message["content"] if block.get("tool_use_id") == call.call_id
        ]
        assert said.get("is_error", False) == (call.status != "done")


@given(histories(), st.integers(10, 60))
def test_a_shortened_prompt_is_as_valid_and_short(entries, longest):
    messages = build(History(entries))
    cut = shortened(messages, longest)
    validate(cut)
    for before, after in zip(messages, cut, strict=True):
        assert before["role"] == after["role"]
        for block, short in zip(before["content"], after["content"], strict=True):
            said, shown = (one.get("text") or one.get("content") or "" for one in (block, short))
            assert shown == said if len(said) <= longest else "characters left out" in shown


def test_a_history_that_a_bug_left_broken_fails_the_turn_by_name(conversation, script):
    """Never a 400 from the provider: the reason is named before it is called."""
    model = script()
    MessageFactory(conversation=conversation, sender="agent", received=True, text="I began.")
    say(conversation.pk, "Hello?")
    assert run_queued(conversation) == ["failed"]
    assert (last_turn(conversation).reason, model.prompts) == ("invalid_prompt", [])
    assert "begins and ends with the user" in last_turn(conversation).error


# --- Whole conversations
class Death(BaseException):
    """The worker's end, as seen from inside."""


def made_tools(fate, ran):
    """Tools that do what `fate` says next. `ran` gets the key of each call that may run once."""

    def act():
        what = fate.pop(0) if fate else "done"
        if what == "die":
            raise Death
        if what == "fail":
            raise ValueError("no")
        return "" if what == "blank" else "Done."

    @tool
    def work(ctx: ToolContext) -> str:
        """Work."""
        ran.append(ctx.idempotency_key)
        return act()

    @tool(idempotent=True)
    def again() -> str:
        """Work, as often as you like."""
        return act()

    @tool(atomic=True)
    def plan() -> str:
        """Plan."""
        return act()

    @tool(permission=True)
    def gated() -> str:
        """Work, if granted."""
        return act()

    return work, again, plan, gated


NAMES = ["work", "again", "plan", "gated", "nothing", "glove_post_to_inbox", "glove_update_tasks"]
USES = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(["", "toolu_1"])), min_size=1, max_size=3)
REPLIES = st.one_of(
    st.just("Good."),
    st.just("Good."),
    USES,
    st.sampled_from(["die", "overloaded", "refusal", "too_long", "empty", "bug"]),
)
ACTIONS = st.one_of(
    st.just("say"),
    st.just("mail"),
    st.just("run"),
    st.just("run"),
    st.just("run"),
    st.sampled_from(["ask", "cancel", "retry", "sweep"]),
)


def reply_of(drawn, conversation, data):
    """What the script returns, or does, for this draw; the world may change while the model thinks."""
    if data.draw(st.integers(0, 3)) == 0:
        happen(data.draw(st.sampled_from(["say", "mail", "ask", "cancel"])), conversation)
    if isinstance(drawn, list):
        return [use(name, given) for name, given in drawn]
    if drawn == "die":
        raise Death
    if drawn == "bug":
        raise ZeroDivisionError
    return drawn if drawn == "Good." else ModelError(drawn)


def happen(action, conversation):
    """One event of the world. What is not possible now is an error with a name, and changes nothing."""
    try:
        match action:
            case "say":
                say(conversation.pk, "Hello.")
            case "mail":
                item = ItemFactory(mailbox=conversation.mailbox, origin=conversation.pk)
                items.resolve(item.pk, "Yes.", by="bob", via="admin")
            case "ask":
                ItemFactory(mailbox=conversation.mailbox, origin=conversation.pk, blocking=True)
            case "cancel":
                cancel(conversation.pk)
            case "retry":
                retry(conversation.pk)
    except AgentsError:
        pass


def run(conversation):
    """Start the open turn, as a worker or a sweep would at some time; a dead worker's lease lapses."""
    turn = open_turn(conversation)
    if turn is None:
        return
    if turn.status == "running":
        backdate(turn, 1, "lease_until")
    else:
        backdate(turn, 1, "not_before")
    try:
        turns.start(turn.pk)
    except Death:
        pass


@pytest.fixture
def model(script):
    return script()


@pytest.mark.slow
@pytest.mark.django_db
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_whatever_happens_every_prompt_is_valid_and_every_turn_ends_by_name(declare, model, data):
    """Messages, mail, calls that work, fail and kill, crashes, compactions, cancellations, retries, in any order: every prompt that
    the model gets breaks no rule of the provider, no tool that may run once runs twice, and in the end the conversation works."""
    with transaction.atomic():
        fate = data.draw(st.lists(st.sampled_from(["done", "done", "fail", "blank", "die"]), max_size=8))
        ran = []
        declare(
            *made_tools(fate, ran),
            limits={"compact_at_tokens": data.draw(st.sampled_from([150, 100_000])), "model_calls": 6},
        )
        conversation = ConversationFactory()
        model.rest = lambda messages: reply_of(data.draw(REPLIES), conversation, data)
        for action in data.draw(st.lists(ACTIONS, min_size=3, max_size=12)):
            if action == "run":
                run(conversation)
            else:
                happen(action, conversation)
        named = set(Turn.objects.filter(conversation=conversation, status="failed").values_list("reason", flat=True))
        assert "invalid_prompt" not in named
        # However it went: the next message works.
        fate.clear()
        model.rest = "Good."
        happen("say", conversation)
        for _ in range(6):
            run(conversation)
        assert open_turn(conversation) is None
        assert last_turn(conversation).status == "done"
        assert not Message.objects.filter(conversation=conversation, place=None).exists()
        for prompt in model.prompts:
            assert judge(prompt) == ""
        model.prompts.clear()
        assert len(ran) == len(set(ran))
        assert_sound()
        transaction.set_rollback(True)  # or what an example left half done would be the next one's
