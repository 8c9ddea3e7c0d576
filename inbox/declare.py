"""Declaring where answers come from, in a `glove.py` of one's own app.

    @resolver("restock:*", every=300)
    def restocked(item) -> str | None: ...

    @webhook("payments", verify=standard_webhooks(SECRET))
    def paid(payload) -> tuple[str, str] | None: ...

A wrong declaration fails when its module is imported. Nothing here touches the database.
"""

import base64
import hashlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from celery.schedules import crontab as celery_crontab
from django.conf import settings
from django.http import HttpRequest

from inbox import instants, tags
from inbox.errors import BadDeclaration, BadTag, DuplicateName

NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
MAX_EVENT_ID = 200

Schedule = instants.Every | instants.Crontab


@dataclass(frozen=True)
class Resolver:
    """A function that is asked, by its schedule, for the answer to each pending item whose tag fits `pattern`."""

    name: str
    pattern: str
    schedule: Schedule
    run: Callable[[Any], str | None]

    def __call__(self, item: Any) -> str | None:
        return self.run(item)


@dataclass(frozen=True)
class Webhook:
    """A function that turns what an outside service sends to `/hooks/<name>` into a tag and the answer to it."""

    name: str
    verify: Callable[[HttpRequest], bool]
    run: Callable[[Any], tuple[str, str] | None]

    def __call__(self, payload: Any) -> tuple[str, str] | None:
        return self.run(payload)

    def event_id(self, request: HttpRequest) -> str | None:
        """What the sender calls this event, where `verify` can tell: the same event again changes nothing. The hash of an id
        that cannot be kept as it is."""
        read = getattr(self.verify, "event_id", None)
        found = read(request) if read else None
        if found is None or (len(found) <= MAX_EVENT_ID and found.isascii() and found.isprintable()):
            return found
        return hashlib.sha256(found.encode(errors="surrogatepass")).hexdigest()


resolvers: dict[str, Resolver] = {}
webhooks: dict[str, Webhook] = {}


def resolver(
    pattern: str,
    *,
    every: int | None = None,
    crontab: str | celery_crontab | None = None,
    timezone: str | None = None,
    name: str | None = None,
) -> Callable[[Callable[[Any], str | None]], Resolver]:
    """Ask the decorated function for answers to pending items whose tag fits the pattern (`*`: any run of characters).

    It is given the Item, outside any transaction, and returns the answer, or None for "not yet". It changes nothing itself.
    `every`    whole seconds between two runs; or
    `crontab`  a Celery crontab, or "minute hour day-of-month month day-of-week", read in `timezone` (default: TIME_ZONE)
    `name`     if not the function's
    Raises BadDeclaration, DuplicateName.
    """
    try:
        tags.check_pattern(pattern)
    except (BadTag, TypeError):
        raise BadDeclaration(
            f"@resolver({pattern!r}): a pattern is a tag in which * stands for any run of characters."
        ) from None
    if pattern.lower().startswith(tags.RESERVED):
        raise BadDeclaration(
            f"@resolver({pattern!r}): tags beginning with {' and '.join(tags.RESERVED)} are the system's own."
        )
    schedule = _schedule(every, crontab, timezone)

    def declare(function: Callable[[Any], str | None]) -> Resolver:
        made = Resolver(_name(name, function, "resolver"), pattern, schedule, _plain(function, "resolver"))
        _register(resolvers, made.name, made, "resolver")
        return made

    return declare


def webhook(
    name: str, *, verify: Callable[[HttpRequest], bool]
) -> Callable[[Callable[[Any], tuple[str, str] | None]], Webhook]:
    """Let the decorated function read what is sent to `/hooks/<name>`: JSON, or the QueryDict of a form.

    `verify` is given the request and returns True where the sender is who she should be; nothing is read before that.
    The function returns `(tag, answer)`, which resolves the pending items with exactly that tag, or None for "nothing to do".
    It may run more than once for one event, so it changes nothing that it could not change twice. Raises BadDeclaration,
    DuplicateName.
    """
    if not callable(verify):
        raise BadDeclaration(f"@webhook({name!r}): verify must be a function of the request that returns a bool.")
    _plain(verify, "verify")

    def declare(function: Callable[[Any], tuple[str, str] | None]) -> Webhook:
        made = Webhook(_name(name, function, "webhook"), verify, _plain(function, "webhook"))
        _register(webhooks, made.name, made, "webhook")
        return made

    return declare


class standard_webhooks:  # noqa: N801  it reads as a function where it is used
    """A `verify` for senders that sign by the Standard Webhooks specification (standardwebhooks.com).

    The signature covers the raw body, the event's id and the time, which may differ from ours by five minutes. The id is
    remembered: an event has one effect, also when it is sent again later with a fresh signature.
    """

    def __init__(self, secret: str) -> None:
        self._key = _secret_key(secret)

    def __call__(self, request: HttpRequest) -> bool:
        from standardwebhooks.webhooks import Webhook as Verifier

        try:
            Verifier(self._key).verify(request.body, dict(request.headers), json_parse=False)
        except Exception:  # malformed headers raise much besides its own error; whatever it is, nothing is verified
            return False
        return True

    def event_id(self, request: HttpRequest) -> str:
        """The header webhook-id, which the signature covers."""
        return request.headers["webhook-id"]


def _secret_key(secret: object) -> bytes:
    encoded = secret.removeprefix("whsec_") if isinstance(secret, str) else ""
    try:
        # Padding may be missing: some senders show secrets without it.
        if encoded:
            return base64.b64decode(encoded.rstrip("=") + "=" * (-len(encoded.rstrip("=")) % 4), validate=True)
    except ValueError:
        pass
    raise BadDeclaration(
        "standard_webhooks(secret): a secret is base64, mostly after whsec_. This one is blank or not that."
    )


def get_webhook(name: str) -> Webhook | None:
    """The declared webhook of this name."""
    return webhooks.get(name)


def _schedule(every: int | None, crontab: str | celery_crontab | None, timezone: str | None) -> Schedule:
    if (every is None) == (crontab is None):
        raise BadDeclaration("@resolver takes either every=seconds or crontab=..., and one of them.")
    if every is not None:
        if timezone is not None:
            raise BadDeclaration("@resolver: timezone= belongs to crontab=; every= knows no time zone.")
        return instants.Every(every)
    zone = timezone or settings.TIME_ZONE
    if isinstance(crontab, str):
        return instants.from_text(crontab, zone)
    if isinstance(crontab, celery_crontab):
        return instants.from_celery(crontab, zone)
    raise BadDeclaration(f"crontab={crontab!r}: write celery.schedules.crontab(...), or five fields as text.")


def _name(name: str | None, function: Any, kind: str) -> str:
    found = name if name is not None else getattr(function, "__name__", "")
    if not isinstance(found, str) or not NAME.fullmatch(found):
        raise BadDeclaration(f"{found!r} is not a {kind}'s name: 1 to 100 of the characters A-Z a-z 0-9 _ . -.")
    return found


def _plain(function: Any, kind: str) -> Any:
    """An async function would return a coroutine, which is true and no answer."""
    if not callable(function) or inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise BadDeclaration(f"The {kind} {function!r} must be a plain function (def, without await or yield).")
    return function


def _register(registry: dict[str, Any], name: str, made: Any, kind: str) -> None:
    if name in registry:
        first = cast(Any, registry[name].run)
        raise DuplicateName(
            f"Two {kind}s are named {name!r}: in {first.__module__} and in {made.run.__module__}. Give one of them another name."
        )
    registry[name] = made
