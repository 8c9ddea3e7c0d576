"""Keys of callers: made, found, revoked. Only a key's hash is kept."""

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from typing import Any

from django.db import transaction

from inbox import text
from inbox.clock import clock
from inbox.errors import BadScope
from inbox.models import ApiKey, Mailbox

# What a scope lets a key do; a key with none may do what its user may.
SCOPES = {
    "read": "see agents, conversations, items and permissions",
    "converse": "open conversations, write messages, close, cancel and retry",
    "resolve": "resolve, cancel and link items",
    "drop": "drop mail to agents",
    "mailboxes": "open mailboxes at free addresses",
    "permissions": "revoke tool permissions",
    "mesh": "speak on the mesh as the key's peer",
}
START = "glv_"
SHOWN = 12  # characters of a key that are kept to tell keys apart


def create_key(user: Any, name: str, scopes: Iterable[str] = (), *, peer: Mailbox | None = None) -> tuple[ApiKey, str]:
    """A new key and its plaintext, which is kept nowhere. Raises BadScope, and the errors of `inbox.text.check` for the name."""
    text.check(name, what="name", limit=100)
    asked = list(dict.fromkeys(scopes))
    if unknown := sorted(set(asked) - set(SCOPES)):
        raise BadScope(f"There is no scope {', '.join(unknown)}. Choose from {', '.join(SCOPES)}.")
    plaintext = START + secrets.token_urlsafe(32)
    key = ApiKey.objects.create(
        user=user, name=name, prefix=plaintext[:SHOWN], key_hash=digest(plaintext), scopes=asked, peer=peer
    )
    return key, plaintext


def revoke_key(key_id: int) -> bool:
    """Kill a key at once; false where it was dead already."""
    with transaction.atomic():
        return bool(ApiKey.objects.filter(pk=key_id, revoked_at=None).update(revoked_at=clock()))


def find_key(plaintext: str) -> ApiKey | None:
    """The living key of an active user. The look-up is by the hash of 256 random bits, so timing tells nothing of a key; the
    comparison takes constant time all the same."""
    wanted = digest(plaintext)
    key = ApiKey.objects.select_related("user").filter(key_hash=wanted).first()
    if key is None or not hmac.compare_digest(key.key_hash, wanted):
        return None
    return key if key.revoked_at is None and key.user.is_active else None


def digest(plaintext: str) -> str:
    """What is kept of a key. No salt and no slow hash: a key has 256 random bits, not a person's password."""
    return hashlib.sha256(plaintext.encode(errors="surrogatepass")).hexdigest()
