"""Who is in the demo: a customer, a barista who answers agents, a boss; and what is there on the first day."""

import secrets
from typing import Any, NamedTuple

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db import transaction
from django.db.models import Max, Q

from demo import orders, payments
from demo.approvals import TAG
from demo.errors import ShopError
from demo.models import Order
from inbox.models import CannedAnswer, TagGroup
from inbox.services.rights import set_canned_answer, set_tag_group

GROUP = "baristas"
APPROVALS = "approval:*"
RIGHTS = {
    "inbox": ("view_item", "view_mailbox", "view_resolverrun", "resolve_item", "drop_item"),
    "agents": (
        *("view_conversation", "view_message", "view_turn", "view_toolcall", "view_task", "view_permission"),
        "decide_permission",
    ),
    "demo": ("view_order", "view_refund", "view_shelf"),
}
CANNED = (("Approve", "Approved."), ("Too late", "No: refunds are possible for 30 days."))
# Without l, o, 0 and 1: it is read from a terminal and typed.
ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"


class Person(NamedTuple):
    """One of the demo's users; `where` she signs in."""

    name: str
    role: str
    where: str


PEOPLE = (
    Person("ada", "customer", "/login"),
    Person("barista", "staff", "/admin/"),
    Person("boss", "superuser", "/admin/"),
)


def new_password() -> str:
    """60 random bits, in groups that can be read aloud."""
    return "-".join("".join(secrets.choice(ALPHABET) for _ in range(4)) for _ in range(3))


@transaction.atomic
def open_shop(*, reset: bool = False) -> tuple[dict[str, str], list[str]]:
    """Make whatever is missing. Returns the passwords that were set, by name, and notes about what could not be made.

    What is there is left as it is: a user's rights, an edited tag group. `reset` gives the three a new password.
    """
    users, passwords = {}, {}
    for person in PEOPLE:
        users[person.name], made = _user(person)
        if made or reset:
            passwords[person.name] = new_password()
            users[person.name].set_password(passwords[person.name])
            users[person.name].save(update_fields=["password"])
    _rights(users["barista"])
    try:
        first = orders.place(users["ada"], "yirgacheffe", 2, key="demo:first-order")
        orders.pay(first.pk)
    except ShopError as error:
        return passwords, [f"Ada's first order could not be made. {error}"]
    return passwords, []


def _user(person: Person) -> tuple[Any, bool]:
    staff, boss = person.role != "customer", person.role == "superuser"
    return get_user_model().objects.get_or_create(
        username=person.name, defaults={"is_staff": staff, "is_superuser": boss}
    )


def _rights(barista: Any) -> None:
    group, made = Group.objects.get_or_create(name=GROUP)
    if made:
        wanted = [Q(content_type__app_label=app, codename__in=names) for app, names in RIGHTS.items()]
        group.permissions.set(Permission.objects.filter(wanted[0] | wanted[1] | wanted[2]))
        barista.groups.add(group)
    if not TagGroup.objects.filter(pattern=APPROVALS).exists():
        set_tag_group(APPROVALS, [group])
    for title, text in CANNED if not CannedAnswer.objects.filter(pattern=TAG).exists() else ():
        set_canned_answer(TAG, title, text)


def orders_to_pay(limit: int = 3) -> list[int]:
    """The newest orders that are not paid; where there is none, the number that the next order will most likely have."""
    unpaid = list(Order.objects.filter(paid_at=None).order_by("-pk").values_list("pk", flat=True)[:limit])
    return unpaid or [(Order.objects.aggregate(last=Max("pk"))["last"] or 0) + 1]


def pay_commands(base_url: str) -> list[tuple[int, str]]:
    """Each order that waits to be paid, and the command that plays the bank for it."""
    return [(number, payments.curl_line(base_url, number)) for number in orders_to_pay()]
