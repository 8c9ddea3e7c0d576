"""Lists by cursor: every entry once, whatever is written meanwhile, and no cursor but the list's own."""

import base64

import pytest

from agents import registry
from agents.models import Message, Task
from agents.services import conversations
from inbox.services import items, letters
from tests.api.kit import assert_problem, by_key

pytestmark = pytest.mark.django_db


def walk(caller, path, limit, meanwhile=lambda: None, cursor=""):
    """The ids of all pages, and the size of each."""
    ids, sizes = [], []
    while cursor is not None:
        joint = "&" if "?" in path else "?"
        page = caller.get(f"{path}{joint}limit={limit}" + (f"&cursor={cursor}" if cursor else "")).json()
        ids += [entry["id"] for entry in page["items"]]
        sizes.append(len(page["items"]))
        cursor = page["next"]
        meanwhile()
    return ids, sizes


@pytest.fixture
def many(world):
    return [items.post(world.mailbox.pk, tag="many", request=f"Number {number}").pk for number in range(7)]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 200])
def test_every_entry_once_newest_first(world, many, limit):
    ids, sizes = walk(by_key(world.ada), "/inbox/items?tag=many", limit)
    assert ids == [str(pk) for pk in reversed(many)]
    assert all(size == limit for size in sizes[:-1])


@pytest.mark.parametrize("who", ["ada", "root"])
def test_stable_under_inserts(world, many, who):
    def meanwhile():
        letters.drop(world.mailbox.pk, tag="many", request="New", response="New", by="x", via="system")

    ids, _ = walk(by_key(getattr(world, who)), "/inbox/items?tag=many", 2, meanwhile)
    assert ids == [str(pk) for pk in reversed(many)]


def test_a_full_last_page_has_no_next(world, many):
    page = by_key(world.ada).get("/inbox/items?tag=many&limit=7").json()
    assert (len(page["items"]), page["next"]) == (7, None)


def test_fifty_by_default(world):
    for number in range(51):
        letters.drop(world.mailbox.pk, tag="lot", request=f"{number}", response="x", by="x", via="system")
    page = by_key(world.ada).get("/inbox/items?tag=lot").json()
    assert len(page["items"]) == 50
    assert page["next"]


def test_short_lists_have_pages_too(world):
    """Every list takes `limit` and `cursor`, so that one loop reads them all."""
    talk = conversations.open_conversation(world.mailbox.pk)
    for place in range(5):
        Task.objects.create(conversation=talk, position=place, content=f"Do {place}", active_form="Doing")
    ids, sizes = walk(by_key(world.ada), f"/conversations/{talk.pk}/tasks", 2)
    assert (len(set(ids)), sizes) == (5, [2, 2, 1])
    page = by_key(world.ada).get("/agents?limit=200").json()
    assert ([agent["name"] for agent in page["items"]], page["next"]) == (sorted(registry.agents), None)
    assert_problem(by_key(world.ada).get(f"/agents?cursor={own('tasks', 1)}"), 422, "bad-cursor")


def own(name, *numbers):
    return base64.urlsafe_b64encode(":".join([name, *map(str, numbers)]).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    [
        "garbage",
        "%FF",
        "a",
        "1",
        "x" * 200,
        "=" * 8,
        own("items"),
        own("items", "-1"),
        own("items", "01"),
        own("items", "1_0"),
        own("items", "\u0661"),
        own("items", 2**63),
        own("items", 1, 2),
        own("turns", 1),
        own("items", 1) + "=",
        own("items", "1;drop"),
    ],
)
def test_a_cursor_that_is_none(world, cursor):
    assert_problem(by_key(world.ada).get(f"/inbox/items?cursor={cursor}"), 422, "bad-cursor")


def test_a_cursor_too_long(world):
    assert_problem(by_key(world.ada).get("/inbox/items?cursor=" + "x" * 201), 422, "invalid")


def test_a_cursor_shows_nobody_more(world, many):
    """Bob goes on where Ada stopped: he still sees his own only."""
    cursor = by_key(world.ada).get("/inbox/items?limit=1").json()["next"]
    found = by_key(world.bob).get(f"/inbox/items?cursor={cursor}").json()
    assert {item["mailbox"] for item in found["items"]} <= {"helper/bob"}


# --- The history, oldest first: first what was received, then what waits


@pytest.fixture
def conversation(world):
    return conversations.open_conversation(world.mailbox.pk)


def place(conversation, number, **columns):
    return Message.objects.create(conversation=conversation, place=number, **columns)


@pytest.mark.parametrize("limit", [1, 2, 3, 200])
def test_the_history_in_its_order(world, conversation, limit):
    second = place(conversation, 2, sender="agent", text="two")
    first = place(conversation, 1, sender="user", text="one")
    waiting = [conversations.say(conversation.pk, text) for text in ("three", "four")]
    ids, _ = walk(by_key(world.ada), f"/conversations/{conversation.pk}/messages", limit)
    assert ids == [str(message.pk) for message in (first, second, *waiting)]


def test_a_message_that_is_received_between_two_pages_is_shown_once(world, conversation):
    said = [conversations.say(conversation.pk, text) for text in ("one", "two", "three")]
    caller, path = by_key(world.ada), f"/conversations/{conversation.pk}/messages"
    page = caller.get(f"{path}?limit=2").json()
    assert [entry["text"] for entry in page["items"]] == ["one", "two"]
    for number, message in enumerate(said, start=1):
        Message.objects.filter(pk=message.pk).update(place=number)
    place(conversation, 4, sender="agent", text="four")
    place(conversation, 5, sender="user", kind="inbox", text="five")
    late = conversations.say(conversation.pk, "six")
    ids, _ = walk(caller, path, 2, cursor=page["next"])
    rest = list(Message.objects.filter(place__gte=3).order_by("place").values_list("pk", flat=True))
    assert ids == [str(pk) for pk in (*rest, late.pk)]
