"""The scripted model: the same prompt gets the same reply, under the rules that the real one is under."""

import json

import pytest

from agents.adapters import ModelError, Reply, ToolSpec, Usage
from agents.adapters.scripted import ScriptedModel

HELLO = [{"role": "user", "content": [{"type": "text", "text": "Hello there"}]}]
CALL = {"type": "tool_use", "name": "look_up", "input": {"sku": "beans"}}


def ask(script=None, messages=HELLO, tools=(), on_delta=None, **options):
    if script is not None:
        options["script"] = script
    return ScriptedModel("test", options).reply(
        system="Be brief.", messages=messages, tools=tools, max_tokens=100, on_delta=on_delta
    )


def shout(messages, tools):
    """A script by its dotted path."""
    return "HELLO"


def test_without_a_script_it_echoes():
    assert ask().text == "You said: Hello there"
    assert ask(messages=[{"role": "user", "content": "plain"}]).text == "You said: plain"


def test_a_script_by_its_path():
    assert ask(f"{__name__}.shout").text == "HELLO"


def test_a_script_sees_prompt_and_tools():
    seen = []
    tools = [ToolSpec("look_up", "Look it up.", {"type": "object"})]
    ask(lambda *given: seen.append(given) or "ok", tools=tools)
    assert seen == [(HELLO, tools)]


@pytest.mark.parametrize(
    ("said", "text", "calls", "stop"),
    [
        ("Hi", "Hi", 0, "end_turn"),
        ({"type": "text", "text": "Hi"}, "Hi", 0, "end_turn"),
        (CALL, "", 1, "tool_use"),
        ([{"type": "text", "text": "Hi"}, CALL, CALL], "Hi", 2, "tool_use"),
    ],
)
def test_what_a_script_may_return(said, text, calls, stop):
    found = ask(lambda *_: said)
    assert (found.text, len(found.tool_uses), found.stop_reason) == (text, calls, stop)
    assert len({use.id for use in found.tool_uses}) == calls
    assert [block.get("id") for block in json.loads(found.blocks) if "id" in block] == [
        use.id for use in found.tool_uses
    ]
    assert all(use.input == {"sku": "beans"} for use in found.tool_uses)


def test_a_reply_passes_as_it_is():
    given = Reply("[]", "cut", (), "max_tokens", Usage(1, 2), "m")
    assert ask(lambda *_: given) is given


@pytest.mark.parametrize("said", [None, 7, ["Hi"], b"Hi"])
def test_anything_else_is_a_mistake_of_the_script(said):
    with pytest.raises(TypeError, match="A script returned"):
        ask(lambda *_: said)


def test_errors_of_a_script_pass():
    def fail(messages, tools):
        raise ModelError("overloaded", retry_after=3)

    with pytest.raises(ModelError) as caught:
        ask(fail)
    assert (caught.value.reason, caught.value.permanent, caught.value.retry_after) == ("overloaded", False, 3)


def test_nothing_said_is_an_empty_reply():
    for said in ("", "\u200b", []):
        with pytest.raises(ModelError) as caught:
            ask(lambda *_, said=said: said)
        assert caught.value.reason == "empty"


def test_ids_depend_on_the_prompt_alone():
    def ids(messages):
        return [use.id for use in ask(lambda *_: [CALL, CALL], messages).tool_uses]

    assert ids(HELLO) == ids(HELLO)
    assert not set(ids(HELLO)) & set(ids([{"role": "user", "content": "Something else"}]))


def test_an_id_that_stands_in_the_prompt_is_not_given_again():
    call = {**CALL, "id": "toolu_1"}
    before = [*HELLO, {"role": "assistant", "content": [call]}]
    assert ask(lambda *_: call, before).tool_uses[0].id == "toolu_1_2"


@pytest.mark.parametrize(
    "given", [{"n": float("nan")}, {"n": "\x00"}, {1: 2}, [1], None, {"n": object()}, {"n": 10**5000}]
)
def test_inputs_are_judged_as_those_of_a_real_model(given):
    [use] = ask(lambda *_: {**CALL, "input": given}).tool_uses
    assert (use.input, use.problem) == (None, "invalid")


def test_unstorable_text_is_marked():
    assert ask(lambda *_: "a\x00b\ud800").text == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"


def test_it_streams_and_waits(monkeypatch):
    waits, pieces = [], []
    monkeypatch.setattr("agents.adapters.scripted.time.sleep", waits.append)
    found = ask(lambda *_: "Two bags  are left.\n", on_delta=pieces.append, delay=0.5)
    assert "".join(pieces) == found.text
    assert len(pieces) == 4
    assert waits == [0.5]


def test_usage_grows_with_the_prompt():
    short, long = ask(), ask(messages=[{"role": "user", "content": "x" * 4000}])
    assert long.usage.input_tokens - short.usage.input_tokens == pytest.approx(1000, abs=5)
    assert long.usage.output_tokens > 1000
