"""The real SDK against a server on loopback: every fault has a name, and nothing partial is ever a reply."""

import json
import time
from email.utils import formatdate

import pytest

from agents.adapters import ModelError, ToolSpec
from agents.adapters.anthropic import MAX_PAUSES, AnthropicModel
from agents.adapters.anthropic_faults import retry_after
from agents.adapters.anthropic_stream import Bounded
from agents.testing.fault_server import FAULTS, FaultServer, Step, named, reply, text, thinking, tool

TOOL = ToolSpec("refund", "Refund an order.", {"type": "object", "properties": {"amount": {"type": "integer"}}})
HELLO = [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]


@pytest.fixture
def serve():
    """Start a server with these steps; all are stopped at the end."""
    servers = []

    def start(*steps, **options):
        servers.append(FaultServer(list(steps), **options).start())
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def model(server, **options):
    return AnthropicModel(
        "test", {"base_url": server.url, "api_key": "k", "model": "claude-x", "read_timeout": 30, **options}
    )


def ask(server, messages=HELLO, on_delta=None, **options):
    return model(server, **options).reply(
        system="Be brief.", messages=messages, tools=[TOOL], max_tokens=1000, on_delta=on_delta
    )


def fails(server, **options):
    with pytest.raises(ModelError) as caught:
        ask(server, **options)
    return caught.value


# --- Faults
@pytest.mark.parametrize(
    ("fault", "reason", "permanent", "wait"),
    [
        ("rate_limited", "rate_limited", False, None),
        ("rate_limited:300", "rate_limited", False, 300.0),
        ("error_500", "provider_error", False, None),
        ("bad_gateway", "provider_error", False, None),
        ("unavailable", "overloaded", False, None),
        ("gateway_timeout", "timeout", False, None),
        ("overloaded", "overloaded", False, None),
        ("overloaded_in_stream", "overloaded", False, None),
        ("cut_before_tool", "cut_stream", False, None),
        ("cut_in_tool", "cut_stream", False, None),
        ("cut_after_tool", "cut_stream", False, None),
        ("ends_before_tool", "cut_stream", False, None),
        ("ends_in_tool", "cut_stream", False, None),
        ("ends_after_tool", "cut_stream", False, None),
        ("disconnect", "connection", False, None),
        ("html", "provider_error", False, None),
        ("html:503", "overloaded", False, None),
        ("refusal", "refusal", True, None),
        ("empty", "empty", True, None),
        ("unknown_stop", "unknown_stop", True, None),
        ("too_long", "too_long", True, None),
        ("too_large", "too_long", True, None),
        ("bad_request", "bad_request", True, None),
        ("unauthorized", "auth", True, None),
        ("not_found", "not_found", True, None),
    ],
)
def test_a_fault_is_an_error_with_its_reason_and_no_reply(serve, fault, reason, permanent, wait):
    server = serve(named(fault))
    error = fails(server)
    assert (error.reason, error.permanent, error.retry_after) == (reason, permanent, wait)
    assert len(server.requests) == 1  # the SDK does not try again by itself


@pytest.mark.parametrize("fault", ["hang", "hang_in_stream"])
def test_silence_is_a_timeout(serve, fault):
    assert fails(serve(named(fault)), read_timeout=0.2).reason == "timeout"


def test_a_slow_drip_ends_at_the_total_timeout(serve):
    assert fails(serve(text()), total_timeout=0).reason == "timeout"


def test_a_reply_without_bound_is_cut_off(monkeypatch):
    class Flood:
        def iter_bytes(self):
            while True:
                yield b"x" * 1000

    monkeypatch.setattr("agents.adapters.anthropic_stream.MAX_BYTES", 10_000)
    with pytest.raises(ModelError) as caught:
        list(Bounded(Flood(), 60).iter_bytes())
    assert caught.value.reason == "provider_error"


def test_every_fault_of_the_server_is_covered_here():
    told = {"max_tokens_in_text", "max_tokens_in_tool", "unknown_block", "duplicate_tool_ids", "pause_turn"}
    marks = [
        mark
        for test in (test_a_fault_is_an_error_with_its_reason_and_no_reply, test_silence_is_a_timeout)
        for mark in test.pytestmark
    ]
    cases = {
        str(case[0] if isinstance(case, tuple) else case).partition(":")[0] for mark in marks for case in mark.args[1]
    }
    assert set(FAULTS) == cases | told


def test_nobody_listens():
    with FaultServer() as server:
        gone = server.url
    with pytest.raises(ModelError) as caught:
        AnthropicModel("test", {"base_url": gone, "api_key": "k", "model": "x"}).reply(
            system="", messages=HELLO, tools=[], max_tokens=10
        )
    assert (caught.value.reason, caught.value.permanent) == ("connection", False)


def event(kind, **more):
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n"


def block_of(kind, delta, **start):
    """A whole stream of one block that grows by this."""
    return (
        event("message_start", message={"model": "m"})
        + event("content_block_start", index=0, content_block={"type": kind, "id": "a", "name": "refund", **start})
        + event("content_block_delta", index=0, delta=delta)
        + event("content_block_stop", index=0)
        + event("message_delta", delta={"stop_reason": "end_turn"})
        + event("message_stop")
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("event: message_start\ndata: <html>\n\n", "provider_error"),
        ("event: message_start\ndata: [1]\n\n", "provider_error"),
        ('event: message_start\ndata: {"type": "message_start"}\n\n', "provider_error"),
        ('event: message_stop\ndata: {"type": "message_stop"}\n\n', "cut_stream"),
        ('data: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n', "overloaded"),
        (
            'event: error\ndata: {"type": "error", "error": {"type": "news_error", "message": "?"}}\n\n',
            "provider_error",
        ),
        (
            'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 0, "delta": {}}\n\n',
            "provider_error",
        ),
        (event("message_start", message={"usage": "much"}), "provider_error"),
        (block_of("text", {"type": "text_delta", "text": 5}), "provider_error"),
        (block_of("thinking", {"type": "thinking_delta", "thinking": {"a": 1}}), "provider_error"),
        (block_of("tool_use", {"type": "input_json_delta", "partial_json": {"amount": 10}}), "provider_error"),
        (block_of("text", {"type": "text_delta", "text": "5"}, text=["5"]), "provider_error"),
        ("event: \xff\n\n", "cut_stream"),
        ("", "cut_stream"),
    ],
)
def test_a_stream_that_is_not_of_the_api(serve, body, reason):
    error = fails(serve(Step("strange", body=body, content_type="text/event-stream")))
    assert (error.reason, error.permanent) == (reason, False)


def test_bytes_that_are_no_text(serve):
    strange = Step(
        "strange", body="event: x\n\n", content_type="text/event-stream", headers={"content-encoding": "gzip"}
    )
    assert fails(serve(strange)).reason == "provider_error"


def test_a_stop_reason_that_never_came_is_a_cut(serve):
    assert fails(serve(reply("Hello", stop_reason=None))).reason == "cut_stream"


def test_a_block_that_was_never_closed_is_a_cut(serve):
    events = [event for event in reply(tool("refund", {"amount": 1})).events if event["type"] != "content_block_stop"]
    assert fails(serve(Step("unclosed", events=tuple(events)))).reason == "cut_stream"


def test_a_context_window_that_the_reply_filled(serve):
    error = fails(serve(reply("And so", stop_reason="model_context_window_exceeded")))
    assert (error.reason, error.permanent) == ("too_long", True)


def test_blank_text_alone_is_an_empty_reply(serve):
    assert fails(serve(reply("", " \n"))).reason == "empty"
    assert fails(serve(reply(thinking("Hm.", "sig"), stop_reason="max_tokens"))).reason == "empty"


def test_a_failed_call_tells_what_it_cost(serve):
    usage = fails(serve(FAULTS["refusal"]())).usage
    assert usage.input_tokens > 0
    assert usage.output_tokens > 0


@pytest.mark.parametrize("number", [10**12, -1, 1.5, True, "many", None, [1]])
def test_a_count_of_tokens_that_is_none_can_be_stored(serve, number):
    step = reply("Hello")
    events = tuple({**one, "usage": {"output_tokens": number}} if "usage" in one else one for one in step.events)
    assert 0 <= ask(serve(Step("counted", events=events))).usage.output_tokens <= 10**9


def test_a_refusal_says_why(serve):
    assert "This cannot be answered." in str(fails(serve(FAULTS["refusal"]())))


def test_a_key_that_cannot_be_sent_is_not_quoted(serve):
    error = fails(serve(text()), api_key="sk-secret\n-part")
    assert error.permanent
    assert "secret" not in str(error)


def test_no_key(serve, monkeypatch):
    monkeypatch.setenv("HOME", "/nonexistent")
    error = fails(serve(text()), api_key="")
    assert (error.reason, error.permanent) == ("auth", True)
    assert "ANTHROPIC_API_KEY" in str(error)


@pytest.mark.parametrize("said", ["\ud800", float("nan")])
def test_a_prompt_that_cannot_be_sent(serve, said):
    server = serve(text())
    error = fails(server, messages=[{"role": "user", "content": [{"type": "text", "text": said}]}])
    assert (error.reason, error.permanent) == ("bad_request", True)
    assert not server.requests


# --- Retry-After
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Tue, 01 Dec 2026 10:05:00 GMT", "date": "Tue, 01 Dec 2026 10:00:00 GMT"}, 300.0),
        ({"retry-after": "Tue, 01 Dec 2026 09:00:00 GMT", "date": "Tue, 01 Dec 2026 10:00:00 GMT"}, 0.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "1e300"}, 86400.0),
        ({"retry-after": "inf"}, 86400.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after(headers, seconds):
    assert retry_after(headers) == seconds


def test_retry_after_as_a_date_without_the_senders_clock():
    assert retry_after({"retry-after": formatdate(time.time() + 60, usegmt=True)}) == pytest.approx(60, abs=2)


# --- Replies
def test_a_plain_reply(serve):
    pieces = []
    found = ask(serve("Two bags are left."), on_delta=pieces.append)
    assert (found.text, found.stop_reason, found.tool_uses) == ("Two bags are left.", "end_turn", ())
    assert "".join(pieces) == found.text
    assert len(pieces) > 1
    assert json.loads(found.blocks) == [{"type": "text", "text": "Two bags are left."}]
    assert found.model == "fault-server"
    assert found.usage.input_tokens > 0
    assert found.usage.output_tokens > 1


def test_a_tool_use(serve):
    found = ask(serve(["Let me.", tool("refund", {"amount": 1000}, id="toolu_1")]))
    assert found.stop_reason == "tool_use"
    [use] = found.tool_uses
    assert (use.id, use.name, use.input, use.problem) == ("toolu_1", "refund", {"amount": 1000}, "")
    assert json.loads(found.blocks)[1] == {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "refund",
        "input": {"amount": 1000},
    }


def test_what_is_asked(serve):
    server = serve(text())
    ask(server, params={"temperature": 0}, headers={"anthropic-beta": "x"})
    [sent] = server.requests
    assert sent.body["model"] == "claude-x"
    assert sent.body["stream"] is True
    assert sent.body["temperature"] == 0
    assert sent.headers["anthropic-beta"] == "x"
    assert sent.body["tools"][0]["input_schema"] == TOOL.input_schema


def test_without_system_and_tools_neither_is_sent(serve):
    server = serve(text())
    model(server).reply(system="", messages=HELLO, tools=[], max_tokens=10)
    assert not {"system", "tools"} & set(server.requests[0].body)


def test_environment_names_address_key_and_model(serve, monkeypatch):
    server = serve(text())
    for name, value in {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": "from-env",
        "GLOVE_MODEL": "m-env",
    }.items():
        monkeypatch.setenv(name, value)
    AnthropicModel("test", {}).reply(system="", messages=HELLO, tools=[], max_tokens=10)
    [sent] = server.requests
    assert sent.body["model"] == "m-env"
    assert "from-env" in sent.headers["Authorization"]


def test_max_tokens_in_text_is_a_reply(serve):
    found = ask(serve(FAULTS["max_tokens_in_text"]()))
    assert (found.text, found.stop_reason, found.tool_uses) == ("And then the", "max_tokens", ())


@pytest.mark.parametrize("raw", ["", "{}", '{"amount": 10', '{"amount": 10}'])
def test_max_tokens_in_a_tool_input_never_runs(serve, raw):
    whole, cut = ask(
        serve(reply(tool("refund", {"amount": 1}), tool("refund", raw), stop_reason="max_tokens"))
    ).tool_uses
    assert (whole.input, whole.problem) == ({"amount": 1}, "")
    assert (cut.input, cut.problem) == (None, "truncated")


@pytest.mark.parametrize(
    "raw",
    [
        '{"amount": NaN}',
        '{"amount": -Infinity}',
        '{"amount": 1e400}',
        '{"amount": 1' + "0" * 400 + "}",
        '{"amount": 10, "amount": 1000}',
        '{"amount": {"a": 1, "a": 2}}',
        '{"note": "\\u0000"}',
        '{"note": "\\ud800"}',
        '{"\\u0000": 1}',
        '{"amount": 10',
        '{"amount": 10} {"amount": 1000}',
        "[10]",
        "null",
        "ten",
        '{"amount": ' + "9" * 5000 + "}",
        '{"a": ' + "[" * 100 + "]" * 100 + "}",
        '{"a": ' + "[" * 100_000,
    ],
    ids=lambda raw: raw[:20],
)
def test_an_input_that_cannot_be_carried_never_runs(serve, raw):
    found = ask(serve(reply("Let me.", tool("refund", raw, id="toolu_1"), piece=50_000)))
    [use] = found.tool_uses
    assert (use.input, use.problem) == (None, "invalid")
    assert json.loads(found.blocks)[1]["input"] == {}


def test_an_input_keeps_every_value(serve):
    raw = '{"z": -0.0, "big": 123456789012345678901234567890, "a": [1.5, true, null, "\\ud83d\\ude00 \\u2028"]}'
    [use] = ask(serve([tool("refund", raw)])).tool_uses
    assert use.problem == ""
    assert str(use.input["z"]) == "-0.0"
    assert list(use.input) == ["z", "big", "a"]
    assert use.input["big"] == 123456789012345678901234567890
    assert use.input["a"] == [1.5, True, None, "\N{GRINNING FACE} \u2028"]


def test_a_character_split_between_two_pieces_of_an_input_is_whole(serve):
    raw = '{"note": "\ud83d\ude00"}'
    [use] = ask(serve(reply(tool("refund", raw), piece=raw.index("\ude00")))).tool_uses
    assert use.input == {"note": "\N{GRINNING FACE}"}


def test_a_call_without_arguments(serve):
    [use] = ask(serve([tool("refund")])).tool_uses
    assert (use.input, use.problem) == ({}, "")


@pytest.mark.parametrize("name", ["", "re fund", "x" * 200, "re\x00fund"])
def test_a_name_that_the_api_would_not_take_back_never_runs(serve, name):
    server = serve([tool(name, {"amount": 1}, id="toolu_1")], "Sorry.")
    found = ask(server)
    [use] = found.tool_uses
    assert use.problem == "invalid"
    assert json.loads(found.blocks)[0]["name"] == use.name
    assert "\x00" not in use.name


def test_ids_are_unique_in_a_reply_and_in_the_prompt(serve):
    server = serve(FAULTS["duplicate_tool_ids"](), FAULTS["duplicate_tool_ids"](), "Done.")
    messages = list(HELLO)
    ids = []
    for _ in range(3):
        found = ask(server, messages)
        ids += [use.id for use in found.tool_uses]
        results = [{"type": "tool_result", "tool_use_id": use.id, "content": "2 left"} for use in found.tool_uses]
        messages += [
            {"role": "assistant", "content": json.loads(found.blocks)},
            {"role": "user", "content": results},
        ]
    assert found.text == "Done."
    assert len(ids) == len(set(ids)) == 4


def test_an_unknown_block_is_kept_and_replayed(serve):
    found = ask(serve(FAULTS["unknown_block"]()))
    assert found.text == "A hologram, as you see."
    assert json.loads(found.blocks)[0]["type"] == "hologram"


def test_a_pause_goes_on(serve):
    server = serve(FAULTS["pause_turn"](), ["Found it.", tool("refund", {"amount": 1})])
    found = ask(server)
    assert found.text == "Looking.\n\nFound it."
    kinds = ["text", "server_tool_use", "web_search_tool_result", "text", "tool_use"]
    assert [block["type"] for block in json.loads(found.blocks)] == kinds
    again = server.requests[1].body["messages"][-1]
    assert again["role"] == "assistant"
    assert again["content"][1]["input"] == {"query": "beans"}
    assert found.usage.output_tokens > ask(serve(["Found it."])).usage.output_tokens


def test_a_pause_after_white_space_goes_on_too(serve):
    server = serve(reply("Looking. ", stop_reason="pause_turn"), "Two bags.")
    assert ask(server).text == "Looking. Two bags."
    assert server.requests[1].body["messages"][-1]["content"][-1]["text"] == "Looking."


def test_a_pause_that_fails_stores_nothing_and_one_that_never_ends_is_given_up(serve):
    assert fails(serve(FAULTS["pause_turn"](), FAULTS["overloaded"]())).reason == "overloaded"
    server = serve(FAULTS["pause_turn"]())
    assert fails(server).reason == "unknown_stop"
    assert len(server.requests) == 1 + MAX_PAUSES


# --- What is stored and sent again
def test_blocks_are_sent_again_byte_for_byte(serve):
    """Case 17: signed thinking, key order, -0.0 and large integers."""
    raw = '{"b": 1, "a": -0.0, "n": 123456789012345678901234567890, "f": 1e5, "s": "\\u2028é\\ud83d\\ude00\\\\"}'
    signed = thinking("Let me see…\n\t\x01\x00 \\u0041 é\N{GRINNING FACE}", "EqQBCgIYAhIM+/==")
    server = serve(
        [signed, "Let me.", tool("refund", raw, id="toolu_1"), {"type": "redacted_thinking", "data": "x/+="}], "Done."
    )
    first = ask(server)
    assert json.loads(first.blocks)[0] == signed
    result = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}]
    ask(
        server,
        [*HELLO, {"role": "assistant", "content": json.loads(first.blocks)}, {"role": "user", "content": result}],
    )
    assert f'"content":{first.blocks}'.encode() in server.requests[1].raw


def test_thinking_that_no_encoding_carries_is_dropped_as_a_whole(serve):
    found = ask(serve([thinking("half \ud83d", "sig"), "Hello"]))
    assert json.loads(found.blocks) == [{"type": "text", "text": "Hello"}]


def test_a_block_that_grew_in_an_unknown_way_is_dropped_as_a_whole(serve):
    step = reply(thinking("Hm.", "sig"), "Hello", tool("refund", {"amount": 1}))
    odd = [
        {"type": "content_block_delta", "index": place, "delta": {"type": "odd_delta", "x": 1}} for place in range(3)
    ]
    events = []
    for event in step.events:
        events.append(event)
        if event["type"] == "content_block_start":
            events.append(odd[event["index"]])
    found = ask(serve(Step("odd", events=tuple(events))))
    assert [block["type"] for block in json.loads(found.blocks)] == ["text", "tool_use"]
    assert found.tool_uses[0].problem == "invalid"


def test_unstorable_text_is_marked(serve):
    pieces = []
    found = ask(serve(reply("a\x00b \ud800 c", piece=1)), on_delta=pieces.append)
    assert found.text == "a\N{REPLACEMENT CHARACTER}b \N{REPLACEMENT CHARACTER} c"
    assert json.loads(found.blocks)[0]["text"] == found.text
    assert "".join(pieces) == found.text


def test_a_character_split_between_two_pieces_is_whole(serve):
    pieces = []
    found = ask(serve(reply("a\ud83d\ude00b", piece=2)), on_delta=pieces.append)
    assert found.text == "".join(pieces) == "a\N{GRINNING FACE}b"


def test_blank_blocks_are_dropped(serve):
    found = ask(serve(["", tool("refund", {"amount": 1}), "\n"]))
    assert [block["type"] for block in json.loads(found.blocks)] == ["tool_use"]


def test_an_exception_of_the_listener_ends_the_call_and_passes_as_it_is(serve):
    class Stop(Exception):
        pass

    def stop(piece):
        raise Stop

    with pytest.raises(Stop):
        ask(serve("Two bags are left."), on_delta=stop)


# --- Caching
def cached(request):
    return [
        (place, spot)
        for place, message in enumerate(request.body["messages"])
        for spot, block in enumerate(message["content"])
        if "cache_control" in block
    ]


def test_cache_marks_stand_where_the_next_call_finds_them(serve):
    server = serve(text())
    said = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    messages = [
        {"role": "user", "content": list(said)},
        {"role": "assistant", "content": list(said)},
        {"role": "user", "content": list(said)},
        {"role": "assistant", "content": list(said)},
        {"role": "user", "content": [*said, {"type": "text", "text": "reminder"}]},
    ]
    before = json.dumps(messages)
    ask(server, messages)
    ask(server, messages, cache=None)
    ask(server, messages, cache="1h")
    marked, bare, hour = server.requests
    assert cached(marked) == [(2, 1), (4, 2)]
    assert (
        marked.body["system"][-1]["cache_control"] == marked.body["tools"][-1]["cache_control"] == {"type": "ephemeral"}
    )
    assert b"cache_control" not in bare.raw
    assert hour.body["system"][-1]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert json.dumps(messages) == before


def test_messages_of_plain_text_are_taken_too(serve):
    server = serve(text())
    ask(server, [{"role": "user", "content": "Hello"}])
    assert server.requests[0].body["messages"][0]["content"][0]["text"] == "Hello"
