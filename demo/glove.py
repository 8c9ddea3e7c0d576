"""The shop's agents: what they can do, and where their answers come from.

restock:<sku>     answered by `restocked`, which reads the stock file
pay:<order>       answered by the webhook `payments`, or by a person with a link
approval:refund   answered by staff
roast:<sku>       the roaster's: answered by `planned`, which reads the roasting plan, or by staff
mesh:waiting:...  answered by the roaster, another agent, whom the concierge asks by letter
"""

from typing import Any

from agents import Agent, ToolContext, tool
from demo import orders, payments, roasts, stock
from demo.errors import NoCustomer, SheetUnreadable, ShopError
from demo.words import bags_of, money, wanted
from inbox import resolver, webhook
from inbox.services.mailboxes import find_mailbox
from mesh import peer


def customer_of(ctx: ToolContext) -> Any:
    """Whom the conversation serves: the owner of its mailbox. Never somebody whom the text names."""
    mailbox = find_mailbox(ctx.mailbox)
    if mailbox is None or mailbox.owner is None:
        raise NoCustomer
    return mailbox.owner


# --- Tools
@tool(idempotent=True)
def look_up_stock(ctx: ToolContext, sku: str = "") -> str:
    """Look up what the shop has: prices and how many bags are left. Without a sku, everything."""
    try:
        shelf = stock.read()
        coffees = [shelf.find(sku)] if sku else list(shelf.coffees.values())
    except ShopError as error:
        return str(error)
    lines = [_line(coffee) for coffee in coffees]
    return "\n".join(lines if sku else lines + shelf.faults) or "The stock file has no coffee in it."


def _line(coffee: stock.Coffee) -> str:
    return f"{coffee.sku}: {coffee.name}, {money(coffee.cents)} a bag, {orders.left(coffee)} left"


@tool(atomic=True)
def place_order(ctx: ToolContext, sku: str, bags: int) -> str:
    """Order bags of one coffee for the customer. Takes them off the shelf at once; the payment is a separate matter."""
    try:
        order = orders.place(customer_of(ctx), sku, bags, key=ctx.idempotency_key)
    except ShopError as error:
        return f"Not ordered. {error}"
    return f"Order {order.pk} is placed: {bags_of(order.bags, order.name)}, {money(order.total_cents)}, not paid yet."


@tool(idempotent=True)
def list_orders(ctx: ToolContext) -> str:
    """List the customer's last 20 orders: what was paid and what was given back."""
    try:
        found = orders.orders_of(customer_of(ctx))[:20]
    except ShopError as error:
        return str(error)
    return "\n".join(orders.describe(order) for order in found) or "This customer has no orders."


@tool(atomic=True)
def check_payment(ctx: ToolContext, order_id: int) -> str:
    """Look whether an order is paid. To be called when mail about a payment has come: what is on record counts."""
    try:
        return orders.describe(orders.check_payment(customer_of(ctx), order_id))
    except ShopError as error:
        return str(error)


def needs_permission(order_id: int, cents: int, approval: int = 0) -> bool:
    """More than the limit goes back only with an approval, which `refund` looks up, or with a standing permission."""
    return cents > orders.REFUND_LIMIT_CENTS and not approval


@tool(atomic=True, permission=needs_permission)
def refund(ctx: ToolContext, order_id: int, cents: int, approval: int = 0) -> str:
    """Give money back on a paid order, in whole cents.

    Above €20.00 `approval` must be the number of the inbox item in which staff approved exactly this refund.
    """
    try:
        made = orders.refund(customer_of(ctx), order_id, cents, key=ctx.idempotency_key, approval=approval)
    except ShopError as error:
        return f"Not refunded. {error}"
    return f"Refunded: {money(made.cents)} of order {made.order_id}."


@tool(idempotent=True)
def look_up_roasts(ctx: ToolContext, sku: str = "") -> str:
    """Look up when coffee is roasted next, and how many bags. Without a sku, all of the plan, and what is missing on it."""
    try:
        plan = roasts.read()
    except ShopError as error:
        return str(error)
    lines = roasts.told(plan, sku) or ["This coffee is not on the plan." if sku else "The plan has no coffee in it."]
    return "\n".join([*lines, *([] if sku else roasts.missing(plan)), *plan.faults])


concierge = Agent(
    "concierge",
    description="Sells coffee, finds out what is not there yet, and gives money back.",
    instructions="concierge.md",
    tools=[look_up_stock, place_order, list_orders, check_payment, refund],
    capabilities=["orders", "stock", "refunds"],
    mesh=True,
)

roaster = Agent(
    "roaster",
    description="Knows when each coffee is roasted next.",
    instructions="roaster.md",
    tools=[look_up_roasts],
    capabilities=["roasting"],
)
# One for the whole shop, whom every customer's concierge may write to.
peer("roaster", agent="roaster", public=True)


# --- Where answers come from
@resolver("restock:*", every=5)
def restocked(item: Any) -> str | None:
    """The coffee is there again, in the number of bags that the request names (one, where it names none).

    A stock file that cannot be read, or not in full, is an error of the run: staff see it, and the next run tries again.
    """
    shelf, sku = stock.read(), item.tag.partition(":")[2]
    if sku not in shelf.coffees and not shelf.faults:
        return f"The shop does not sell {sku}. It has: {', '.join(shelf.coffees)}."
    coffee = shelf.find(sku)
    left = orders.left(coffee)
    if left < wanted(item.request):
        return None
    return f"{bags_of(left, coffee.name)} {'is' if left == 1 else 'are'} here."


@resolver("roast:*", every=5)
def planned(item: Any) -> str | None:
    """The coffee is on the roasting plan now, or, for `roast:any_coffee`, anything at all is.

    A plan that cannot be read, or not in full, is an error of the run: staff see it, and the next run tries again.
    """
    plan, sku = roasts.read(), item.tag.partition(":")[2]
    lines = roasts.told(plan, "" if sku == roasts.ANY else sku)
    if not lines and plan.faults:
        raise SheetUnreadable(" ".join(plan.faults))
    return "\n".join(lines) or None


@webhook("payments", verify=payments.is_signed)
def paid(payload: Any) -> tuple[str, str] | None:
    """The bank says that an order is paid: `{"order": "7"}`. An order that nobody knows changes nothing."""
    order = orders.pay(payload.get("order", "")) if isinstance(payload, dict) else None
    if order is None:
        return None
    return orders.payment_tag(order), f"Order {order.pk} was paid: {money(order.total_cents)}."
