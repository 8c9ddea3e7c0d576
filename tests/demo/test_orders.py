"""Orders, payments and refunds: once per key, never more than there is, never on anybody's word but the rows'."""

import itertools

import pytest
from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction

from demo import approvals, orders
from demo.errors import BadAmount, NoSuchCoffee, NoSuchOrder, NotApproved, NotEnough, NotRefundable
from demo.models import Order, Refund
from inbox.models import Item
from inbox.services import answers, items, letters

WHAT = "Refund €36.00 for order {}"


# --- Orders
def test_an_order_takes_bags_off_the_shelf_and_counts_cents(ada, stock_file):
    order = orders.place(ada, "Yirgacheffe", 3, key="k")
    assert (order.total_cents, order.paid_at) == (5400, None)
    assert orders.left(orders.stock.read().find("yirgacheffe")) == 21


def test_the_same_call_orders_once(ada, stock_file):
    first = orders.place(ada, "yirgacheffe", 3, key="k")
    stock_file.unlink()  # what was ordered is answered even then
    assert orders.place(ada, "yirgacheffe", 3, key="k") == first
    assert Order.objects.count() == 1


@pytest.mark.parametrize(
    ("sku", "bags", "error"),
    [
        ("huila", 1, NotEnough),
        ("decaf", 2, NotEnough),
        ("yirgacheffe", 0, BadAmount),
        ("yirgacheffe", -3, BadAmount),
        ("yirgacheffe", 10**30, BadAmount),
        ("tea", 1, NoSuchCoffee),
    ],
)
def test_what_cannot_be_ordered_changes_nothing(ada, stock_file, sku, bags, error):
    with pytest.raises(error):
        orders.place(ada, sku, bags, key="k")
    assert not Order.objects.exists()


def test_the_last_bag_goes_to_one_of_many(transactional_db, race, ada, stock_file):
    finish = race(6, lambda index: orders.place(ada, "decaf", 1, key=f"k{index}"))
    assert len(finish.results) == 1
    assert {type(error) for error in finish.errors} == {NotEnough}


def test_a_shelf_that_was_lowered_below_what_is_ordered_has_nothing_left(ada, stock_file):
    orders.place(ada, "yirgacheffe", 10, key="k")
    stock_file.write_text("sku,name,cents,bags\nyirgacheffe,Yirgacheffe,1800,4\n")
    assert orders.left(orders.stock.read().find("yirgacheffe")) == 0
    with pytest.raises(NotEnough):
        orders.place(ada, "yirgacheffe", 1, key="k2")


# --- Payments
def test_paid_is_paid_once(paid_order):
    assert orders.pay(f"#{paid_order.pk}").paid_at == paid_order.paid_at


@pytest.mark.parametrize("order", ["", "x", None, -1, 10**40, "7; DROP", ["7"], True, "٣"])
def test_an_order_that_nobody_knows_is_none(db, order):
    assert orders.pay(order) is None


@pytest.mark.parametrize(
    ("answer", "paid"), [("paid", True), ("Yes, thanks", True), ("not yet", False), ("paid half", False)]
)
def test_a_person_may_say_that_it_is_paid(ada, boss, ask, answer, paid):
    order = orders.place(ada, "yirgacheffe", 1, key="k")
    item = ask(orders.payment_tag(order), "Has it been paid?")
    assert orders.check_payment(ada, order.pk).paid_at is None
    answers.resolve_as(boss, item.pk, answer, via=Item.Via.LINK)
    assert bool(orders.check_payment(ada, order.pk).paid_at) is paid


def test_mail_that_nobody_asked_for_pays_nothing(ada, conversation):
    order = orders.place(ada, "yirgacheffe", 1, key="k")
    letters.drop(
        conversation.mailbox_id, tag=orders.payment_tag(order), request="r", response="paid", by="x", via=Item.Via.ADMIN
    )
    assert orders.check_payment(ada, order.pk).paid_at is None


# --- Refunds
def approve(ask, boss, request, answer="Approved.", via=Item.Via.ADMIN, tag=approvals.TAG):
    item = ask(tag, request, blocking=True)
    answers.resolve_as(boss, item.pk, answer, via=via)
    return item.pk


def test_small_refunds_need_nobody_until_they_add_up(ada, paid_order):
    orders.refund(ada, paid_order.pk, 1500, key="a")
    orders.refund(ada, paid_order.pk, 500, key="b")
    with pytest.raises(NotRefundable, match="needs an approval"):
        orders.refund(ada, paid_order.pk, 1, key="c")
    assert Order.objects.get(pk=paid_order.pk).refunded_cents == 2000


def test_an_approval_pays_for_exactly_one_refund(ada, boss, ask, paid_order):
    item = approve(ask, boss, WHAT.format(paid_order.pk) + "\nShe did not like it.")
    orders.refund(ada, paid_order.pk, 3600, key="a", approval=item)
    assert orders.refund(ada, paid_order.pk, 3600, key="a", approval=item).approval == item
    with pytest.raises(NotApproved, match="used"):
        orders.refund(ada, paid_order.pk, 3600, key="b", approval=item)
    assert Order.objects.get(pk=paid_order.pk).refunded_cents == 3600
    assert Refund.objects.count() == 1


@pytest.mark.parametrize(
    ("request_text", "answer", "says"),
    [
        (WHAT, "No, that was 40 days ago.", "not a plain yes"),
        (WHAT, "Yes, but only €20", "not a plain yes"),
        (WHAT, "ok unless she has opened it", "not a plain yes"),
        (WHAT, "Sure, don't", "not a plain yes"),
        ("Refund €3.60 for order {}", "Approved", "does not ask for this"),
        ("Refund €36.00 for order 99999", "Approved", "does not ask for this"),
        ("Please sign here\n" + WHAT, "Approved", "does not ask for this"),
    ],
)
def test_what_staff_did_not_plainly_approve_is_not_refunded(ada, boss, ask, paid_order, request_text, answer, says):
    item = approve(ask, boss, request_text.format(paid_order.pk), answer)
    with pytest.raises(NotApproved, match=says):
        orders.refund(ada, paid_order.pk, 3600, key="a", approval=item)
    assert not Refund.objects.exists()


def test_only_a_person_in_the_customers_own_mailbox_with_the_right_tag_approves(ada, boss, ask, paid_order):
    what = WHAT.format(paid_order.pk)
    by_hook = ask(approvals.TAG, what)
    items.resolve_tag(approvals.TAG, "Approved", by="hook", via=Item.Via.WEBHOOK)
    other_tag = approve(ask, boss, what, tag="approval:other")
    pending = ask(approvals.TAG, what + ".")
    eve = get_user_model().objects.create_user("eve")
    hers = approve(ask, boss, what + "!")
    for item, customer in (
        (by_hook.pk, ada),
        (other_tag, ada),
        (pending.pk, ada),
        (hers, eve),
        (10**30, ada),
        (-1, ada),
    ):
        with pytest.raises((NotApproved, NoSuchOrder)):
            orders.refund(customer, paid_order.pk, 3600, key=f"k{item}", approval=item)
    assert not Refund.objects.exists()


@pytest.mark.parametrize("cents", [0, -5, 3601, 10**30])
def test_amounts_that_are_none(ada, paid_order, cents):
    with pytest.raises(BadAmount):
        orders.refund(ada, paid_order.pk, cents, key="a")


def test_unpaid_and_foreign_orders_are_not_refunded(ada, boss, paid_order):
    unpaid = orders.place(ada, "yirgacheffe", 1, key="u")
    with pytest.raises(NotRefundable, match="has not been paid"):
        orders.refund(ada, unpaid.pk, 100, key="a")
    with pytest.raises(NoSuchOrder, match="no order"):
        orders.refund(boss, paid_order.pk, 100, key="b")


def test_refunds_that_race_never_give_back_more_than_was_paid(transactional_db, race, ada, paid_order):
    keys = itertools.count()
    finish = race(6, lambda index: orders.refund(ada, paid_order.pk, 900, key=f"r{next(keys)}"))
    assert len(finish.results) == 2  # €20.00 is the limit without an approval
    assert Order.objects.get(pk=paid_order.pk).refunded_cents == 1800


def test_the_database_itself_refuses_a_refund_of_more_than_the_total(paid_order):
    with pytest.raises(IntegrityError), transaction.atomic():
        Order.objects.filter(pk=paid_order.pk).update(refunded_cents=3601)
