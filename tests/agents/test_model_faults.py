"""Every fault of a model's provider, over real HTTP, at the first, the middle and the last call of a turn: the turn ends in a named
state, nothing partial is kept, no tool runs twice, and the next message works. Promises 12 and 14, cases 9 to 13."""

import time
from typing import Any

import pytest
from django.utils import timezone

from agents import tool
from agents.models import Message, ModelCall, ToolCall
from agents.services import turns
from agents.services.conversations import say
from agents.testing.fault_server import FAULTS, FaultServer, named, reply
from agents.testing.fault_server import tool as use
from tests.agents.kit import assert_sound, calls, last_turn, run_queued, transcript
from tests.factories import backdate

# What the turn is left as, and its reason. Passing: queued again. Permanent: failed.
PASSING = {
    "rate_limited": "rate_limited",
    "rate_limited:300": "rate_limited",
    "error_500": "provider_error",
    "bad_gateway": "provider_error",
    "unavailable": "overloaded",
    "gateway_timeout": "timeout",
    "overloaded": "overloaded",
    "overloaded_in_stream": "overloaded",
    "cut_before_tool": "cut_stream",
    "cut_in_tool": "cut_stream",
    "cut_after_tool": "cut_stream",
    "ends_before_tool": "cut_stream",
    "ends_in_tool": "cut_stream",
    "ends_after_tool": "cut_stream",
    "disconnect": "connection",
    "hang": "timeout",
    "hang_in_stream": "timeout",
    "html": "provider_error",
}
PERMANENT = {
    "refusal": "refusal",
    "empty": "empty",
    "unknown_stop": "unknown_stop",
    "bad_request": "bad_request",
    "unauthorized": "auth",
    "not_found": "not_found",
}
TOO_LONG = ("too_long", "too_large")
HARMLESS = {"max_tokens_in_text", "max_tokens_in_tool", "unknown_block", "duplicate_tool_ids", "pause_turn"}
PLACES = {"first": 0, "middle": 1, "last": 2}
at_each_call = pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)

STEPS = (use("look_up", {"sku": "beans"}), use("look_up", {"sku": "milk"}), "Two bags and no milk.")
READ_S, HANG_READ_S = 30, 2  # of silence: a busy machine is not one; and for the faults that hang
FREED_S = 1.0  # what leaving a turn may take beyond a turn that goes well
BUSY = 3  # what a busy machine may make of it


def test_each_fault_is_tried_here():
    """A new fault of the server needs a place in this file."""
    tried = {name.partition(":")[0] for name in PASSING} | set(PERMANENT) | set(TOO_LONG) | HARMLESS
    assert set(FAULTS) == tried


class Provider:
    """A server whose replies are STEPS, with other steps put in at one place; and the looks that the agent's tool took."""

    def __init__(self) -> None:
        self.steps: list[Any] = list(STEPS)
        self.summaries: list[Any] = ["Beans and milk were asked for."]
        self.looked: list[str] = []
        self.server = FaultServer(self._next)

    def fail(self, place: int, *faults: Any) -> None:
        """Have these come before the reply at this place."""
        self.steps[place:place] = [named(fault) if isinstance(fault, str) else fault for fault in faults]

    def _next(self, body: dict[str, Any]) -> Any:
        last = body["messages"][-1]["content"][-1]
        if "Write a summary" in last.get("text", ""):
            return self.summaries.pop(0) if len(self.summaries) > 1 else self.summaries[0]
        return self.steps.pop(0) if self.steps else "Gladly."

    @property
    def asked(self) -> int:
        return len(self.server.requests)


@pytest.fixture(scope="module", autouse=True)
def _sdk_is_imported():
    """It takes two seconds once, which are not the turn's."""
    import anthropic  # noqa: F401


@pytest.fixture
def provider(declare, settings, request):
    provider = Provider()
    given = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    read_s = HANG_READ_S if str(given.get("fault")).startswith("hang") else READ_S

    @tool
    def look_up(sku: str) -> str:
        """How many there are."""
        provider.looked.append(sku)
        return f"{sku}: 2"

    @tool
    def refund(amount: int) -> str:
        """Refund it. (What the faults of the server call.)"""
        provider.looked.append(f"refund {amount}")
        return "refunded"

    declare(look_up, refund)
    with provider.server as server:
        options = {"model": "m", "api_key": "k", "base_url": server.url, "read_timeout": read_s}
        backend = "agents.adapters.anthropic.AnthropicModel"
        settings.AGENT_MODELS = {"default": {"BACKEND": backend, "OPTIONS": options}}
        yield provider


def begin(conversation) -> tuple[str, float]:
    """Ask, and run the turn: how it was left, and after how many seconds."""
    say(conversation.pk, "What is there?")
    began = time.monotonic()
    return run_queued(conversation)[0], time.monotonic() - began


def go_on(conversation) -> str:
    """The turn when it is due again."""
    turn = last_turn(conversation)
    backdate(turn, 1, "not_before")
    return turns.start(turn.pk)


def assert_told(conversation, provider) -> None:
    """The conversation holds what it would hold without any fault, and nothing else; each tool ran once."""
    assert [text for sender, _, text in transcript(conversation) if sender == "agent"] == ["", "", STEPS[-1]]
    assert calls(conversation) == [("look_up", "done", "beans: 2"), ("look_up", "done", "milk: 2")]
    assert provider.looked == ["beans", "milk"]


def assert_usable(conversation, provider) -> None:
    """The next message gets an answer, in a prompt that the API takes: the server refuses any other."""
    say(conversation.pk, "Thank you.")
    assert run_queued(conversation) == ["done"]
    assert transcript(conversation)[-1] == ("agent", "message", "Gladly.")
    assert_sound()


# --- Passing faults
@at_each_call
@pytest.mark.parametrize("fault", PASSING)
def test_a_passing_fault_leaves_nothing_and_is_tried_again(provider, conversation, fault, place):
    """Cases 10 to 12 among them: an error inside a 200 stream is a fault like any other."""
    provider.fail(place, fault)
    left, _ = begin(conversation)
    turn = last_turn(conversation)
    assert (left, turn.status, turn.reason) == ("put_off", "queued", PASSING[fault])
    assert turn.token is None
    assert provider.asked == place + 1, "no retry inside the worker"
    assert Message.objects.filter(conversation=conversation, sender="agent").count() == place
    assert ToolCall.objects.filter(turn=turn).count() == place
    assert go_on(conversation) == "done"
    turn.refresh_from_db()
    assert (turn.backoffs, turn.troubled_at, turn.error) == (0, None, "")
    assert_told(conversation, provider)
    assert_usable(conversation, provider)
    assert list(ModelCall.objects.exclude(error="").values_list("error", "attempt")) == [(PASSING[fault], 1)]


@at_each_call
def test_faults_of_every_kind_one_after_another(provider, conversation, place):
    faults = [fault for fault in PASSING if not fault.startswith("hang")]
    provider.fail(place, *faults)
    assert begin(conversation)[0] == "put_off"
    for _ in faults[1:]:
        assert go_on(conversation) == "put_off"
    assert last_turn(conversation).backoffs == len(faults)
    assert go_on(conversation) == "done"
    assert_told(conversation, provider)
    attempts = ModelCall.objects.exclude(error="").order_by("pk").values_list("attempt", flat=True)
    assert list(attempts) == list(range(1, len(faults) + 1))


@at_each_call
def test_the_worker_is_free_at_once_and_retry_after_is_kept(provider, conversation, place):
    """Case 12: the wait is a column, not a sleeping worker."""
    well, in_trouble = [], []
    for _ in range(3):
        provider.steps = list(STEPS)
        well.append(begin(conversation)[1])
        provider.steps = list(STEPS)
        provider.fail(place, "rate_limited:300")
        left, seconds = begin(conversation)
        assert left == "put_off"
        in_trouble.append(seconds)
        turn = last_turn(conversation)
        assert 290 < (turn.not_before - timezone.now()).total_seconds() <= 300
        assert turns.start(turn.pk) == "missed", "not before its time"
        go_on(conversation)
    assert min(in_trouble) < min(well) + BUSY * FREED_S


def test_a_user_message_does_not_hasten_a_turn_that_was_put_off(provider, conversation):
    """It waits with the first, and both are answered in one."""
    provider.fail(0, "rate_limited:300")
    begin(conversation)
    say(conversation.pk, "And milk?")
    assert run_queued(conversation) == ["missed"]
    assert go_on(conversation) == "done"
    assert [text for sender, _, text in transcript(conversation) if sender == "user"] == ["What is there?", "And milk?"]


# --- Permanent faults
@at_each_call
@pytest.mark.parametrize("fault", PERMANENT)
def test_a_permanent_fault_fails_the_turn_by_name_without_a_retry(provider, conversation, fault, place):
    provider.fail(place, fault)
    left, _ = begin(conversation)
    turn = last_turn(conversation)
    assert (left, turn.status, turn.reason) == ("failed", "failed", PERMANENT[fault])
    assert turn.error
    assert provider.asked == place + 1
    assert Message.objects.filter(conversation=conversation, sender="agent").count() == place
    assert provider.looked == ["beans", "milk"][:place]
    assert run_queued(conversation) == [], "nothing tries again by itself"
    provider.steps = []
    assert_usable(conversation, provider)


@at_each_call
@pytest.mark.parametrize("fault", TOO_LONG)
def test_a_prompt_that_is_always_too_long_fails_by_name(provider, conversation, fault, place):
    """Case 14: at most two compactions, and the error is no part of the history."""
    provider.fail(place, *[fault] * 20)
    provider.summaries = [named(fault)]
    left, _ = begin(conversation)
    turn = last_turn(conversation)
    assert (left, turn.reason) == ("failed", "too_long")
    assert provider.asked <= place + 6
    assert not any("too long" in text for _, _, text in transcript(conversation))
    provider.steps = []
    assert_usable(conversation, provider)


@pytest.mark.parametrize("place", [1, 2], ids=["middle", "last"])
@pytest.mark.parametrize("fault", TOO_LONG)
def test_a_prompt_that_is_too_long_once_is_summarised_and_asked_again(provider, conversation, fault, place):
    provider.fail(place, fault)
    assert begin(conversation)[0] == "done"
    assert [kind for _, kind, _ in transcript(conversation)].count("summary") == 1
    assert provider.looked == ["beans", "milk"]
    assert_usable(conversation, provider)


# --- Odd replies that are replies
@at_each_call
def test_text_that_was_cut_ends_the_turn_and_says_so(provider, conversation, place):
    provider.fail(place, "max_tokens_in_text")
    assert begin(conversation)[0] == "done"
    assert transcript(conversation)[-1][2].startswith("And then the\n[The reply was cut here")
    provider.steps = []
    assert_usable(conversation, provider)


@at_each_call
def test_a_call_that_was_cut_off_is_not_run_and_tried_once_with_more_room(provider, conversation, place):
    """Case 9."""
    provider.fail(place, "max_tokens_in_tool")
    assert begin(conversation)[0] == "done"
    refund = ToolCall.objects.get(name="refund")
    assert (refund.status, refund.input, refund.started_at) == ("aborted", "{}", None)
    assert "cut off" in refund.result
    rooms = [request.body["max_tokens"] for request in provider.server.requests]
    assert rooms[place + 1] == 2 * rooms[place]
    assert provider.looked == ["beans", "milk"]
    assert_usable(conversation, provider)


@at_each_call
def test_a_call_that_is_cut_off_twice_fails_the_turn(provider, conversation, place):
    provider.fail(place, "max_tokens_in_tool", "max_tokens_in_tool")
    assert begin(conversation)[0] == "failed"
    assert last_turn(conversation).reason == "truncated"
    assert provider.asked == place + 2
    provider.steps = []
    assert_usable(conversation, provider)


@at_each_call
@pytest.mark.parametrize(
    "given", ['{"amount": 10', '{"amount": NaN}', '{"amount": 1e400}', "[1000]", '{"amount": 1, "amount": 2}']
)
def test_a_call_whose_input_is_no_json_object_is_not_run(provider, conversation, place, given):
    """Cases 10 and 37, where the stream itself came to its end."""
    provider.fail(place, reply(use("refund", given)))
    assert begin(conversation)[0] == "done"
    assert ToolCall.objects.get(name="refund").status == "aborted"
    assert provider.looked == ["beans", "milk"]
    assert_usable(conversation, provider)


@at_each_call
def test_a_block_of_an_unknown_kind_is_kept_and_shown_again(provider, conversation, place):
    provider.fail(place, "unknown_block")
    assert begin(conversation)[0] == "done"
    kept = Message.objects.get(blocks__contains="hologram")
    assert kept.text == "A hologram, as you see."
    provider.steps = []
    assert_usable(conversation, provider)
    assert b'"zero":-0.0' in provider.server.requests[-1].raw.replace(b": ", b":")


@at_each_call
def test_calls_with_one_id_are_told_apart(provider, conversation, place):
    """Case 16."""
    provider.fail(place, "duplicate_tool_ids")
    assert begin(conversation)[0] == "done"
    found = list(ToolCall.objects.order_by("pk").values_list("call_id", "status"))
    assert len({call_id for call_id, _ in found}) == len(found) == 4
    assert {status for _, status in found} == {"done"}
    assert_usable(conversation, provider)


@at_each_call
def test_a_reply_that_paused_is_one_reply(provider, conversation, place):
    provider.fail(place, "pause_turn")
    assert begin(conversation)[0] == "done"
    assert len(ModelCall.objects.all()) == len(STEPS)
    assert provider.looked == ["beans", "milk"]
    assert_usable(conversation, provider)
