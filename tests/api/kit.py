"""Calling the API in tests, and what a problem must look like."""

import json
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from inbox.models import ApiKey, Mailbox
from inbox.services.keys import create_key, revoke_key

BASE = "/api/v1"
JSON = "application/json"


@dataclass
class Caller:
    """Somebody who calls: with a key, with a session, or as nobody."""

    user: User | None = None
    key: str | None = None
    client: Client = field(default_factory=Client)

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The response. `body` is JSON unless it is bytes; `headers` are written with underscores."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.key:
            sent.setdefault("Authorization", f"Bearer {self.key}")
        kind = sent.pop("Content-Type", JSON)
        options: dict[str, Any] = {}
        if body is not None:
            options = {"data": body if isinstance(body, bytes) else json.dumps(body), "content_type": kind}
        address = path if path.startswith(("/api/", "/r/", "/hooks/")) else BASE + path
        return self.client.generic(method, address, headers=sent, **options)

    def get(self, path: str, **headers: str) -> Any:
        return self("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self("POST", path, body, **headers)


def by_key(user: User, *scopes: str, peer: Mailbox | None = None) -> Caller:
    _, plaintext = create_key(user, "test", scopes, peer=peer)
    return Caller(user, plaintext)


def by_session(user: User, *, enforce_csrf_checks: bool = False) -> Caller:
    client = Client(enforce_csrf_checks=enforce_csrf_checks)
    client.force_login(user)
    return Caller(user, client=client)


def person(name: str, *permissions: str, groups: tuple[str, ...] = (), **columns: Any) -> User:
    """A user with these permissions, written `app.codename`, in these groups."""
    user = User.objects.create_user(name, **columns)
    for permission in permissions:
        app, codename = permission.split(".")
        user.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
    for group in groups:
        user.groups.add(Group.objects.get_or_create(name=group)[0])
    return User.objects.get(pk=user.pk)


def assert_problem(response: Any, status: int, slug: str) -> dict[str, Any]:
    """The response is a problem of this type, which says in words what to do. Returns its members."""
    assert response["Content-Type"] == "application/problem+json", response.content[:300]
    found = json.loads(response.content)
    assert (response.status_code, found["type"]) == (status, f"urn:glove:problem:{slug}"), found
    assert found["status"] == status
    assert found["title"]
    assert len(found["detail"]) > 10
    return found


def revoke_all_keys(user: User) -> None:
    for pk in ApiKey.objects.filter(user=user).values_list("pk", flat=True):
        revoke_key(pk)
