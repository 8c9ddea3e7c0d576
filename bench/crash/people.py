"""Who talks to the site while its processes die: over HTTP, with an idempotency key, again and again until there is an answer.

What was answered with 2xx is kept in `Accepted`; afterwards it must all be there, once.
"""

import http.client
import json
import random
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from bench.crash.model import WISHES

PATIENCE_S = 60
REQUEST_S = 15


@dataclass
class Accepted:
    """Tokens that were accepted; and those of requests that never got an answer, which may have been."""

    tokens: set[str] = field(default_factory=set)
    perhaps: set[str] = field(default_factory=set)
    refused: dict[str, int] = field(default_factory=dict)
    unexpected: list[str] = field(default_factory=list)


class Site:
    """The API, for one person with a key."""

    def __init__(self, port: int, key: str) -> None:
        self.port, self.key = port, key

    def post(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Until there is an answer; (0, {}) where there was none for PATIENCE_S."""
        idempotency, ends = str(uuid.uuid4()), time.monotonic() + PATIENCE_S
        while time.monotonic() < ends:
            status, found = self.ask("POST", path, body or {}, {"Idempotency-Key": idempotency})
            if 200 <= status < 500 and found.get("type") != "urn:glove:problem:still-in-flight":
                return status, found
            time.sleep(0.1)
        return 0, {}

    def ask(
        self, method: str, path: str, body: dict[str, Any] | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """One request. (0, {}) where the connection failed."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=REQUEST_S)
        try:
            data = None if body is None else json.dumps(body)
            sent = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json", **(headers or {})}
            connection.request(method, f"/api/v1{path}", data, sent)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")
        except (OSError, http.client.HTTPException, ValueError):
            return 0, {}
        finally:
            connection.close()


class Person(threading.Thread):
    """Talks, answers what agents ask, writes to them unasked, and now and then stops a turn."""

    def __init__(
        self, number: int, seed: int, site: Site, talks: list[tuple[str, str]], accepted: Accepted, pace_s: float
    ) -> None:
        super().__init__(name=f"person-{number}", daemon=True)
        self.number, self.site, self.talks, self.accepted, self.pace_s = number, site, talks, accepted, pace_s
        self.random = random.Random(seed * 1000 + number)
        self.halt, self.count = threading.Event(), 0
        self.silent = False  # answers only

    def run(self) -> None:
        acts, weights = (self.say, self.answer, self.drop, self.stop_turn), (50, 35, 10, 2)
        while not self.halt.is_set():
            act = self.answer if self.silent else self.random.choices(acts, weights)[0]
            try:
                act()
            except Exception as error:
                self.accepted.unexpected.append(f"{act.__name__}: {error!r}")
            time.sleep(self.random.expovariate(1 / self.pace_s))

    def say(self) -> None:
        talk, _ = self.random.choice(self.talks)
        token = self._token("w")
        wishes = self.random.sample(WISHES, self.random.choice((0, 1, 2, 3)))
        text = f"<<{token}>> " + " ".join(f"wish:{wish}" for wish in wishes)
        self._settle(token, *self.site.post(f"/conversations/{talk}/messages", {"text": text}))

    def answer(self) -> None:
        status, found = self.site.ask("GET", "/inbox/items?status=pending&tag=ask:crash&limit=50")
        if status != 200 or not found["items"]:
            return
        item = self.random.choice(found["items"])
        token = self._token("a")
        body = {"response": f"Yes, <<{token}>>."}
        self._settle(token, *self.site.post(f"/inbox/items/{item['id']}/resolve", body))

    def drop(self) -> None:
        _, mailbox = self.random.choice(self.talks)
        token = self._token("d")
        body = {
            "mailbox": mailbox,
            "tag": "news",
            "request": "For your information.",
            "response": f"News: <<{token}>>.",
        }
        self._settle(token, *self.site.post("/inbox/items", body))

    def stop_turn(self) -> None:
        talk, _ = self.random.choice(self.talks)
        self._count(self.site.post(f"/conversations/{talk}/cancel")[0])

    def _token(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.number}-{self.count}"

    def _settle(self, token: str, status: int, found: dict[str, Any]) -> None:
        if 200 <= status < 300:
            self.accepted.tokens.add(token)
        elif status == 0:
            self.accepted.perhaps.add(token)
        self._count(status)

    def _count(self, status: int) -> None:
        if status >= 400:
            self.accepted.refused[str(status)] = self.accepted.refused.get(str(status), 0) + 1
