"""A small world for the API's tests: an agent, a customer and her neighbour, staff within a tag group and outside it."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import Group

from agents import Agent, registry, tool
from inbox.models import TagGroup
from inbox.services import items
from inbox.services.mailboxes import open_mailbox
from tests.api.kit import person

DESK = ("inbox.view_item", "inbox.resolve_item", "inbox.view_mailbox")


@pytest.fixture
def agent() -> Iterator[Agent]:
    """An agent that is declared for this test."""

    @tool
    def look_up(word: str) -> str:
        """Look a word up."""
        return word

    with registry.isolated():
        yield Agent("helper", instructions="Help.", description="Helps.", capabilities=["help"], tools=[look_up])


@pytest.fixture
def world(db: None, agent: Agent) -> SimpleNamespace:
    """`ada` owns a mailbox with a guarded item, an open one and a closed one; `bob` owns another mailbox with one item."""
    ada, bob = person("ada"), person("bob")
    mailbox, other = (open_mailbox(f"helper/{user.username}", agent="helper", owner=user) for user in (ada, bob))
    guard = TagGroup.objects.create(pattern="approval:*")
    guard.groups.add(Group.objects.get_or_create(name="finance")[0])
    guarded = items.post(mailbox.pk, tag="approval:refund", request="Refund 10?", blocking=True)
    free = items.post(mailbox.pk, tag="restock:beans", request="Are the beans in?", due_in_s=3600)
    closed = items.post(mailbox.pk, tag="restock:milk", request="Is the milk in?")
    items.resolve(closed.pk, "Since noon.", by="somebody", via="admin")
    return SimpleNamespace(
        ada=ada,
        bob=bob,
        finance=person("finance", *DESK, groups=("finance",), is_staff=True),
        outside=person("outside", *DESK, is_staff=True),
        viewer=person("viewer", "inbox.view_item", groups=("finance",), is_staff=True),
        plain=person("plain", is_staff=True),
        root=person("root", is_staff=True, is_superuser=True),
        mailbox=mailbox,
        other=other,
        guarded=guarded,
        free=free,
        closed=closed,
        others=items.post(other.pk, tag="restock:tea", request="Is the tea in?"),
    )
