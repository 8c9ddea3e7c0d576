"""Asking something that may hang, without hanging."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class NoAnswerError(Exception):
    """It did not answer in time."""


class Probe(Generic[Answer]):
    """Asks from a thread, one at a time, waits `within_s` seconds at most, and keeps an answer or an error for `keep_s`.

    While an earlier question still hangs, nobody waits: the answer is NoAnswerError at once.
    """

    def __init__(self, ask: Callable[[], Answer], *, within_s: float, keep_s: float) -> None:
        self._ask, self._within_s, self._keep_s = ask, within_s, keep_s
        self._lock = threading.Lock()
        self._future: Future[Answer] | None = None
        self._asked_at = 0.0

    def look(self) -> Answer:
        """The answer. Raises what the question raised, or NoAnswerError."""
        with self._lock:
            if self._future is None or (self._future.done() and time.monotonic() - self._asked_at >= self._keep_s):
                self._future, self._asked_at = Future(), time.monotonic()
                threading.Thread(target=self._run, args=(self._future,), name="probe", daemon=True).start()
            future = self._future
            left = self._asked_at + self._within_s - time.monotonic()
        try:
            return future.result(max(0, left))
        except TimeoutError as error:
            raise NoAnswerError from error

    def forget(self) -> None:
        """Ask anew at the next look."""
        with self._lock:
            self._future = None

    def _run(self, future: "Future[Answer]") -> None:
        try:
            future.set_result(self._ask())
        except BaseException as error:
            future.set_exception(error)
