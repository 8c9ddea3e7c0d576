"""A provider on loopback that speaks the Messages API, streaming or not, and fails as it is told.

    with FaultServer([tool("look_up", {"sku": "beans"}), FAULTS["overloaded"](), "Two bags are left."]) as server:
        ...     # ANTHROPIC_BASE_URL=server.url; afterwards server.requests holds what it was asked

By hand: `python -m agents.testing.fault_server --port 9000 overloaded rate_limited:3 "text:Good morning"`.
A script is a list of steps, one for each request, of which the last one is repeated; or a callable from the request's
body to a step. docs/reference/models.md lists the faults.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any

from agents.testing.rules import breach
from agents.testing.steps import FAULTS, Step, error, named, reply, step_of, text, thinking, tool
from agents.testing.wire import counted, folded, with_id

__all__ = ["FAULTS", "FaultServer", "Received", "Step", "named", "reply", "text", "thinking", "tool"]

Script = Sequence[Any] | Callable[[dict[str, Any]], Any]


@dataclass(frozen=True)
class Received:
    """One request as it came. `raw` is its body, byte for byte."""

    path: str
    headers: dict[str, str]
    raw: bytes
    body: dict[str, Any]


class FaultServer:
    """Listens from `start` to `stop`, or inside `with`. `strict` refuses a prompt that the real API would refuse."""

    def __init__(self, script: Script = (), *, host: str = "127.0.0.1", port: int = 0, strict: bool = True) -> None:
        self.script = script
        self.strict = strict
        self.requests: list[Received] = []
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._answered = 0
        self._server = _Server((host, port), _Handler)
        self._server.owner = self
        self._thread = threading.Thread(target=self._listen, daemon=True)

    @property
    def url(self) -> str:
        return "http://{}:{}".format(*self._address)

    @property
    def _address(self) -> tuple[str, int]:
        host, port = self._server.server_address[:2]
        return str(host), port

    def start(self) -> FaultServer:
        self._thread.start()
        return self

    def _listen(self) -> None:
        while not self.stopping.is_set():
            self._server.handle_request()  # sleeps until somebody connects

    def stop(self) -> None:
        """End what hangs, answer nobody any more, and wait until every thread has gone."""
        self.stopping.set()
        if self._thread.is_alive():
            socket.create_connection(self._address).close()  # wakes the listener
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> FaultServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def answer(self, received: Received) -> Step:
        """The next step of the script. A request that breaks the API's rules is refused, and uses no step up."""
        with self._lock:
            self.requests.append(received)
            if self.strict and (found := breach(received.body)):
                return error(400, "invalid_request_error", found, name="refused")
            place = self._answered
            self._answered += 1
        if callable(self.script):
            step = step_of(self.script(received.body))
        else:
            step = step_of(self.script[min(place, len(self.script) - 1)] if self.script else text())
        return dataclasses.replace(step, events=tuple(with_id(event, place) for event in step.events))


class _Server(socketserver.ThreadingTCPServer):
    owner: FaultServer
    allow_reuse_address = True
    daemon_threads = False  # server_close waits for them
    request_queue_size = 128


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10  # seconds that a client may be silent; it bounds how long a stop can take
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: `requests` tells."""

    def do_POST(self) -> None:
        self.close_connection = True  # one request each: nothing is left open when the server stops
        try:
            self._answer()
        except OSError:
            self._cut()  # the client went away

    def _answer(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path.partition("?")[0] != "/v1/messages":
            return self._whole(error(404, "not_found_error", self.path, name="unknown_path"))
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            return self._whole(error(400, "invalid_request_error", "the body is not a JSON object", name="refused"))
        step = self.server.owner.answer(Received(self.path, dict(self.headers.items()), raw, body))
        if step.status == 0 or (step.delay and self.server.owner.stopping.wait(step.delay)):
            return self._cut()
        if not step.events:
            return self._whole(step)
        return self._stream(step, len(raw)) if body.get("stream") else self._message(step, len(raw))

    def _head(self, step: Step, kind: str, **more: str) -> None:
        self.send_response(step.status)
        headers = {"content-type": kind, "request-id": "req_fault", "connection": "close", **step.headers, **more}
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def _whole(self, step: Step) -> None:
        data = step.body.encode()
        self._head(step, step.content_type, content_length=str(len(data)))
        self.wfile.write(data)

    def _stream(self, step: Step, size: int) -> None:
        self._head(step, "text/event-stream; charset=utf-8", transfer_encoding="chunked")
        for event in step.events:
            data = f"event: {event['type']}\ndata: {json.dumps(counted(event, size))}\n\n".encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
            self.wfile.flush()
        if step.ending == "finish":
            self.wfile.write(b"0\r\n\r\n")
        else:
            if step.ending == "hang":
                self.server.owner.stopping.wait(3600)
            self._cut()

    def _message(self, step: Step, size: int) -> None:
        """The same step for a client that wants one JSON message. What ends too soon is half of it."""
        if step.events[-1]["type"] == "error":
            return self._whole(error(529, "overloaded_error", "Overloaded", name=step.name))
        data = json.dumps(folded(step.events, size)).encode()
        kept = data if step.events[-1]["type"] == "message_stop" else data[: len(data) // 2]
        self._head(step, "application/json", content_length=str(len(kept) if step.ending == "finish" else len(data)))
        self.wfile.write(kept)
        if step.ending == "hang":
            self.server.owner.stopping.wait(3600)
        return None

    def _cut(self) -> None:
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def _step(words: str) -> Step:
    try:
        return named(words)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from wrong


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the address and serve until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(
        prog="agents.testing.fault_server", description="A Messages API that fails as told."
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("steps", nargs="*", type=_step, help=f"text:..., {', '.join(FAULTS)}; the last one is repeated")
    given = parser.parse_args(arguments)
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with FaultServer(given.steps, host=given.host, port=given.port) as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        over.wait()


if __name__ == "__main__":
    main()
