"""What the shop does: place an order, take a payment, give money back. The only writer of the shop's tables.

Each act is done once per key however often it is asked for, and each move is one conditional update: two that race for
the last bag, or for the last cent of an order, cannot both have it.
"""

from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet

from demo import approvals, stock
from demo.errors import BadAmount, NoSuchOrder, NotEnough, NotRefundable
from demo.models import Order, Refund, Shelf
from demo.words import bags_of, money
from inbox.clock import clock

MAX_BAGS = 100  # in one order
REFUND_LIMIT_CENTS = 2000  # more than this goes back only with somebody's approval


def describe(order: Order) -> str:
    """One line about an order, for the model."""
    paid = "paid" if order.paid_at else "not paid"
    back = f", {money(order.refunded_cents)} given back" if order.refunded_cents else ""
    return f"Order {order.pk}: {bags_of(order.bags, order.name)}, {money(order.total_cents)}, {paid}{back}"


def left(coffee: stock.Coffee) -> int:
    """How many bags can be ordered now."""
    taken = Shelf.objects.filter(sku=coffee.sku).values_list("ordered", flat=True).first() or 0
    return max(coffee.bags - taken, 0)


def orders_of(customer: Any) -> QuerySet[Order]:
    """The customer's orders, newest first."""
    return Order.objects.filter(customer=customer).order_by("-id")


def find(customer: Any, order_id: Any) -> Order:
    """The customer's order with that number, or NoSuchOrder: somebody else's does not exist for this customer."""
    number = as_number(order_id)
    if number and (order := Order.objects.filter(customer=customer, pk=number).first()):
        return order
    known = ", ".join(str(pk) for pk in orders_of(customer).values_list("pk", flat=True)[:10]) or "none"
    raise NoSuchOrder(f"This customer has no order {order_id!s:.40}. Her orders: {known}.")


def as_number(order_id: Any) -> int | None:
    """An order's number out of `7`, `"7"` or `"#7"`; None for anything else."""
    digits = str(order_id).strip().removeprefix("#")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 18 else None


@transaction.atomic
def place(customer: Any, sku: str, bags: int, *, key: str) -> Order:
    """Order bags of a coffee. Raises NoSuchCoffee, BadAmount, NotEnough."""
    if placed := Order.objects.filter(key=key, customer=customer).first():
        return placed
    if not 1 <= bags <= MAX_BAGS:
        raise BadAmount(f"An order is for 1 to {MAX_BAGS} bags, not {bags}.")
    coffee = stock.read().find(sku)
    Shelf.objects.get_or_create(sku=coffee.sku)
    if not Shelf.objects.filter(sku=coffee.sku, ordered__lte=coffee.bags - bags).update(ordered=F("ordered") + bags):
        raise NotEnough(f"Not enough: {bags_of(left(coffee), coffee.name)} left, {bags} wanted. Nothing was ordered.")
    return Order.objects.create(
        customer=customer, sku=coffee.sku, name=coffee.name, bags=bags, total_cents=bags * coffee.cents, key=key
    )


def pay(order_id: Any) -> Order | None:
    """Mark an order as paid; the same again changes nothing. None: there is no such order."""
    number = as_number(order_id)
    if number is None:
        return None
    Order.objects.filter(pk=number, paid_at__isnull=True).update(paid_at=clock())
    return Order.objects.filter(pk=number).first()


def check_payment(customer: Any, order_id: Any) -> Order:
    """The order, marked as paid where a person has said so in answer to its request `pay:<order>`. Raises NoSuchOrder."""
    order = find(customer, order_id)
    if order.paid_at is None and approvals.says_paid(payment_tag(order), customer):
        order = pay(order.pk) or order
    return order


def payment_tag(order: Order) -> str:
    """What a request for its payment is tagged with, and what the webhook answers."""
    return f"pay:{order.pk}"


@transaction.atomic
def refund(customer: Any, order_id: Any, cents: int, *, key: str, approval: int = 0) -> Refund:
    """Give money back. Raises NoSuchOrder, BadAmount, NotRefundable, NotApproved.

    `approval` is the number of the inbox item in which staff allowed exactly this; it is looked up, not believed. Whether
    more than REFUND_LIMIT_CENTS may go without one is decided before this is called; that many small ones do not add up
    to more is decided here.
    """
    if made := Refund.objects.filter(key=key, order__customer=customer).first():
        return made
    order = find(customer, order_id)
    if not 1 <= cents <= order.total_cents:
        raise BadAmount(f"A refund of order {order.pk} is 1 to {order.total_cents} cents, not {cents}.")
    if approval:
        approvals.check(approval, customer, what_to_approve(order, cents))
    limit = REFUND_LIMIT_CENTS if not approval and cents <= REFUND_LIMIT_CENTS else order.total_cents
    rows = Order.objects.filter(pk=order.pk, paid_at__isnull=False, total_cents__gte=F("refunded_cents") + cents)
    if not rows.filter(refunded_cents__lte=limit - cents).update(refunded_cents=F("refunded_cents") + cents):
        raise NotRefundable(_why_not(order, cents))
    return Refund.objects.create(order=order, cents=cents, key=key, approval=approval or None)


def what_to_approve(order: Order, cents: int) -> str:
    """The first line of a request for approval: staff say yes or no to exactly this."""
    return f"Refund {money(cents)} for order {order.pk}"


def _why_not(order: Order, cents: int) -> str:
    if order.paid_at is None:
        return f"Order {order.pk} has not been paid, so there is nothing to give back."
    rest = order.total_cents - order.refunded_cents
    if cents > rest:
        return f"Of order {order.pk}, {money(rest)} can still be given back, not {money(cents)}."
    before, limit = money(order.refunded_cents), money(REFUND_LIMIT_CENTS)
    return f"With the {before} given back before, this is more than {limit}: it needs an approval."
