"""The fault server itself: scripts, rules, both forms of an answer, a clean end."""

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

from agents.testing.fault_server import FAULTS, FaultServer, named, thinking, tool
from tests.environment import ROOT

HELLO = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "Hello"}]}


def post(url, body=HELLO, path="/v1/messages", timeout=5):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_steps_come_in_order_and_the_last_one_stays():
    with FaultServer(["one", FAULTS["overloaded"](), "two"]) as server:
        statuses = [post(server.url)[0] for _ in range(4)]
        texts = [post(server.url)[1]["content"][0]["text"]]
    assert statuses == [200, 529, 200, 200]
    assert texts == ["two"]
    assert [received.body for received in server.requests] == [HELLO] * 5


def test_a_script_may_be_a_function_of_the_request():
    with FaultServer(lambda body: body["messages"][-1]["content"].upper()) as server:
        assert post(server.url)[1]["content"] == [{"type": "text", "text": "HELLO"}]


def test_an_answer_that_is_not_streamed():
    blocks = [
        thinking("Hm.", "sig"),
        {"type": "text", "text": "Let me."},
        tool("look_up", {"sku": "beans"}, id="toolu_1"),
    ]
    with FaultServer([blocks]) as server:
        status, message = post(server.url)
    assert status == 200
    assert message["content"] == blocks
    assert message["stop_reason"] == "tool_use"
    assert message["usage"]["input_tokens"] > 0


def test_the_sdk_reads_an_answer_that_is_not_streamed():
    from anthropic import Anthropic

    with FaultServer(["Hello", FAULTS["refusal"]()]) as server:
        client = Anthropic(api_key="k", base_url=server.url, max_retries=0)
        said = [client.messages.create(**HELLO) for _ in range(2)]
        client.close()
    assert said[0].content[0].text == "Hello"
    assert said[1].stop_reason == "refusal"


USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "x", "input": {}}]}
RESULT = {"type": "tool_result", "tool_use_id": "a", "content": "ok"}
ASK = {"role": "user", "content": "Hello"}


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "assistant", "content": "Hello"}],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": [{"type": "text", "text": " "}]}],
        [{"role": "user", "content": []}],
        [ASK, USE],
        [ASK, USE, ASK],
        [ASK, USE, {"role": "user", "content": [{"type": "text", "text": "first"}, RESULT]}],
        [ASK, USE, {"role": "user", "content": [RESULT, RESULT]}],
        [{"role": "user", "content": [RESULT]}],
        [ASK, USE, {"role": "user", "content": [RESULT]}, USE, {"role": "user", "content": [RESULT]}],
    ],
)
def test_a_prompt_that_the_api_would_refuse_is_refused(messages):
    with FaultServer(["fine"]) as server:
        status, body = post(server.url, {**HELLO, "messages": messages})
        assert (status, body["error"]["type"]) == (400, "invalid_request_error")
        assert post(server.url)[0] == 200  # and it took no step of the script
    with FaultServer(["fine"], strict=False) as server:
        assert post(server.url, {**HELLO, "messages": messages})[0] == 200


def test_a_prompt_with_results_is_taken():
    with FaultServer(["fine"]) as server:
        assert post(server.url, {**HELLO, "messages": [ASK, USE, {"role": "user", "content": [RESULT]}]})[0] == 200


def test_other_paths_and_bodies():
    with FaultServer() as server:
        assert post(server.url, path="/v2/messages")[0] == 404
        assert post(server.url, b"{")[0] == 400
        assert post(server.url, b"[]")[0] == 400
        assert not server.requests


def test_unknown_faults_are_named():
    with pytest.raises(ValueError, match="No fault 'overlaoded'"):
        named("overlaoded")


def test_faults_without_an_argument_say_so():
    with pytest.raises(ValueError, match="overloaded takes no argument"):
        named("overloaded:3")


def test_it_stops_while_clients_wait():
    with FaultServer([named("hang")]) as server:
        ended = []

        def wait():
            try:
                post(server.url, timeout=30)
            except OSError as error:
                ended.append(error)

        client = threading.Thread(target=wait)
        client.start()
        while not server.requests:
            time.sleep(0.01)
        before = time.monotonic()
    client.join(5)
    assert ended
    assert time.monotonic() - before < 2


def test_on_the_command_line():
    command = [
        sys.executable,
        "-m",
        "agents.testing.fault_server",
        "--port",
        "0",
        "text:Good morning",
        "rate_limited:3",
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = server.stdout.readline().strip()
            assert post(url)[1]["content"][0]["text"] == "Good morning"
            assert post(url)[0] == 429
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(5) == 0
