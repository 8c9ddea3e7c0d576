"""What a repeated call was answered. Kept in the transaction of the call's effect, so that there is neither without the other."""

import base64
import hashlib
from typing import NamedTuple

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from django.db import connection

from inbox.clock import now
from inbox.models import IdempotencyKey

KEPT_S = 24 * 3600
_SALT = "inbox.services.idempotency"


class Earlier(NamedTuple):
    """The first answer. `body` is None when the site's secret has changed since."""

    body_hash: str
    status: int
    body: str | None


def lock(caller: str, route: str, key: str) -> bool:
    """Hold this key until the transaction ends; false where another call holds it. SQLite's writers wait for each other anyway."""
    if connection.vendor != "postgresql":
        return True
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 1))", ["\n".join((caller, route, key))])
        return bool(cursor.fetchone()[0])


def find(caller: str, route: str, key: str) -> Earlier | None:
    """The first answer of the last 24 hours."""
    row = IdempotencyKey.objects.filter(caller=caller, route=route, key=key, created_at__gt=now(-KEPT_S)).first()
    return Earlier(row.body_hash, row.status, _open(row.body)) if row else None


def keep(caller: str, route: str, key: str, *, body_hash: str, status: int, body: str) -> None:
    """Remember the first answer, in the transaction that holds the lock. What is older than 24 hours makes room."""
    IdempotencyKey.objects.filter(caller=caller, route=route, key=key).delete()
    IdempotencyKey.objects.create(
        caller=caller, route=route, key=key, body_hash=body_hash, status=status, body=_seal(body)
    )


def _seal(body: str) -> str:
    """Answers hold what is kept as a hash elsewhere, such as the token of a link. So they are not kept in clear: whoever reads
    the table without the site's secret reads nothing."""
    return _box().encrypt(body.encode()).decode()


def _open(sealed: str) -> str | None:
    try:
        return _box().decrypt(sealed.encode()).decode()
    except InvalidToken:
        return None


def _box() -> Fernet:
    secret = hashlib.sha256(b"|".join((_SALT.encode(), settings.SECRET_KEY.encode()))).digest()
    return Fernet(base64.urlsafe_b64encode(secret))
