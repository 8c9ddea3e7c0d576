"""A small company: its staff by group, its customers, an agent, a conversation with a request in it."""

import datetime
import functools
import json
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, Permission
from django.utils import timezone

from agents.models import Conversation, Message, Task, ToolCall, Turn
from glove_site.roles import set_up_roles
from inbox.models import Item, Mailbox
from inbox.services import items, rights

PASSWORD = "correct horse"


@functools.cache
def hashed() -> str:
    """PASSWORD as it is kept; to compute it takes half a second."""
    return make_password(PASSWORD)


def person(name: str, *groups: str, staff: bool = True, **extra: Any) -> Any:
    """A user in these groups, which are made where there are none."""
    user = get_user_model().objects.create(username=name, password=hashed(), is_staff=staff, **extra)
    user.groups.set([Group.objects.get_or_create(name=group)[0] for group in groups])
    return user


def allow(user: Any, *labels: str) -> Any:
    """Give permissions to one user; returns her afresh, since they are cached on the instance."""
    for label in labels:
        app, _, codename = label.partition(".")
        user.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
    return get_user_model().objects.get(pk=user.pk)


def mailbox(address: str, owner: Any = None, agent: str = "concierge") -> Mailbox:
    return Mailbox.objects.create(address=address, owner=owner, agent=agent)


def pending(box: Mailbox, tag: str = "restock:beans", request: str = "When do the beans come?", **extra: Any) -> Item:
    """A pending request, past the limit of open ones, as a queue has many."""
    return Item.objects.create(mailbox=box, tag=tag, request=request, **extra)


def due(item: Item, hours: float) -> Item:
    """The item with a deadline so many hours from now."""
    Item.objects.filter(pk=item.pk).update(due_at=timezone.now() + datetime.timedelta(hours=hours))
    item.refresh_from_db()
    return item


def answered(box: Mailbox, response: str = "On Monday.", by: Any = None, **extra: Any) -> Item:
    item = pending(box, **extra)
    return items.resolve(item.pk, response, by=by.username if by else "somebody", via="admin", user=by)


@dataclass
class Talk:
    """A conversation in which the agent asked something."""

    conversation: Conversation
    turn: Turn
    item: Item


def talk(box: Mailbox, request: str, *, tag: str = "approval:refund", title: str = "", **extra: Any) -> Talk:
    """A customer's message, the agent's call that posts the request, its result, and what the agent said then."""
    now = timezone.now()
    conversation = Conversation.objects.create(agent=box.agent, mailbox=box, owner=box.owner, title=title)
    turn = Turn.objects.create(
        conversation=conversation, status="done", not_before=now, started_at=now, finished_at=now, model_calls=2,
        input_tokens=1830, output_tokens=96,
    )  # fmt: skip
    item = pending(box, tag, request, origin=conversation.pk, posted_in=turn.pk, **extra)
    said = Message.objects.create(
        conversation=conversation, place=1, sender="user", text="My last bag was stale. I want my money back.",
        author=box.owner, turn=turn,
    )  # fmt: skip
    asks = Message.objects.create(
        conversation=conversation, place=2, sender="agent", text="I look at your order first.", turn=turn
    )
    ToolCall.objects.create(
        turn=turn, message=asks, position=0, call_id="call-1", name="look_up_order", input='{"order_id": "1017"}',
        status="done", result="1017: 2 bags of house blend, 23.00, delivered 4 days ago", started_at=now, finished_at=now,
    )  # fmt: skip
    ToolCall.objects.create(
        turn=turn, message=asks, position=1, call_id="call-2", name="glove_post_to_inbox",
        input=json.dumps({"tag": tag, "request": request, "blocking": item.blocking}), status="done",
        result=f"item {item.pk} posted", started_at=now, finished_at=now,
    )  # fmt: skip
    Message.objects.create(
        conversation=conversation, place=3, sender="agent", turn=turn,
        text="A refund of this size is for my colleagues to decide. I have asked them and tell you as soon as they answer.",
    )  # fmt: skip
    Task.objects.create(conversation=conversation, position=0, content="Refund order 1017", status="in_progress")
    Task.objects.create(conversation=conversation, position=1, content="Recommend fresher beans", status="pending")
    assert said.pk
    return Talk(conversation, turn, item)


@dataclass
class Company:
    """Ada answers refunds (group billing), Bob restocks (group store), Vera only looks, Olga runs it, Sam may do everything."""

    ada: Any
    bob: Any
    vera: Any
    olga: Any
    sam: Any
    nina: Any
    carl: Any
    box: Mailbox
    refund: Talk
    restock: Item
    note: Item


def company() -> Company:
    set_up_roles()
    ada = person("ada", "resolver", "billing", first_name="Ada", last_name="Young")
    bob = person("bob", "resolver", "store")
    carl = person("carl", staff=False, first_name="Carl", last_name="Customer")
    rights.set_tag_group("approval:*", [Group.objects.get(name="billing")])
    rights.set_tag_group("restock:*", [Group.objects.get(name="store")])
    box = mailbox("concierge/carl", carl)
    return Company(
        ada=ada,
        bob=bob,
        vera=person("vera", "viewer", "billing"),
        olga=person("olga", "operator"),
        sam=person("sam", is_superuser=True),
        nina=person("nina"),
        carl=carl,
        box=box,
        refund=talk(box, "Refund 23.00 for order 1017? The bag was stale.", title="A stale bag", blocking=True),
        restock=pending(box, "restock:house", "When does the house blend come back?"),
        note=pending(box, "question:hours", "Are we open on the 24th?"),
    )


def busy(shop: Company) -> list[Item]:
    """A morning's queue: overdue, due, open-ended, right to left, and one with characters that hide."""
    boxes = [
        shop.box,
        mailbox("concierge/mona", person("mona", staff=False)),
        mailbox("planner", None, agent="planner"),
    ]
    hidden = "Refund 10\u200b\u202e0001\u202c for order 88? The customer says the amount was agreed on the phone."
    rows = [
        (0, "approval:refund", "Refund 12.50 for order 1009? It came a week late.", True, -30),
        (1, "approval:refund", hidden, True, -2),
        (1, "approval:discount", "May I give 15 % to a customer who buys 10 bags of Sidamo every month?", False, 3),
        (
            2,
            "approval:supplier",
            "Change the supplier of oat milk to Nordhafer from January?\n\nThey ask 1.12 a litre.",
            True,
            20,
        ),
        (0, "question:hours", "هل المتجر مفتوح يوم الجمعة؟", False, None),
        (1, "question:allergy", "Does the <b>hazelnut syrup</b> hold nuts? [see](javascript:alert(1))", False, None),
        (2, "note:plan", "Who stands at the bar on the 27th, and may the trainee open alone?", False, 90),
    ]
    items = []
    for index, tag, request, blocking, hours in rows:
        item = pending(boxes[index], tag, request, blocking=blocking)
        items.append(due(item, hours) if hours is not None else item)
    rights.set_canned_answer("approval:*", "Yes, go ahead", "Approved. Go ahead.")
    rights.set_canned_answer(
        "approval:*", "No, too much", "Declined: the amount is above what we give back. Offer a new bag."
    )
    rights.set_canned_answer("question:*", "Ask in the shop", "We do not know; ask the customer to come by.")
    return items
