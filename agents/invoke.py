"""Running a tool with no transaction open: exceptions become failed results, a timeout an unknown outcome."""

import logging
import threading
from collections.abc import Callable

import pydantic
from django.db import connections

from agents.declare import Tool, ToolContext
from inbox.errors import InboxError
from inbox.text import MAX_RESULT_BYTES, clean

log = logging.getLogger(__name__)
LATE_WAIT_S = 300  # how long a late result waits for the journal to say that it is late; the database may be away

Outcome = tuple[str, str]  # done, failed or unknown; the result


def invoke(tool: Tool, context: ToolContext, arguments: pydantic.BaseModel) -> Outcome:
    """Run it to its end, with its retries."""
    for left in range(tool.retries, -1, -1):
        try:
            return "done", clean(tool(context, arguments), limit=MAX_RESULT_BYTES)
        except Exception as error:
            log.warning("The tool %s failed", tool.name, exc_info=not isinstance(error, InboxError))
            if not left:
                return "failed", error_text(error)
    raise AssertionError("unreachable: the last attempt returns")


class Timed:
    """A run that is waited for so many seconds and no longer. What comes later goes to `late`, once `settled` was called."""

    def __init__(self, tool: Tool, work: Callable[[], Outcome], late: Callable[[str, str], None]) -> None:
        self._work, self._late = work, late
        self._seconds = tool.timeout
        self._outcome: Outcome | None = None
        self._given_up = False
        self._lock = threading.Lock()
        self._settled = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"tool {tool.name}", daemon=True)

    def wait(self) -> Outcome:
        """The outcome, or unknown."""
        self._thread.start()
        self._thread.join(self._seconds)
        with self._lock:
            if self._outcome:
                return self._outcome
            self._given_up = True
        return "unknown", f"No answer within {self._seconds:g} s: whether it happened is unknown."

    def settled(self) -> None:
        """The journal has the outcome that `wait` gave."""
        self._settled.set()

    def _run(self) -> None:
        try:
            outcome = self._work()
            with self._lock:
                self._outcome = outcome
                late = self._given_up
            if late and self._settled.wait(LATE_WAIT_S):
                self._late(*outcome)
        except Exception:
            log.exception("A tool's result was lost")
        finally:
            connections.close_all()  # this thread's own


def error_text(error: Exception) -> str:
    """What the model is told of an exception of a tool."""
    said = str(error) if isinstance(error, InboxError) else f"{type(error).__name__}: {error}"
    return clean(said, limit=MAX_RESULT_BYTES)
