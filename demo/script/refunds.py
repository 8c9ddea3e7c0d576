"""The script's way to a refund: ask which, try, and where it is more than the tool may, ask the staff and wait."""

from demo.script.hearing import Call
from demo.script.memory import Memory, Plan
from demo.script.shelf import read_orders
from demo.words import cents_in, money, order_number_in


def refund(text: str, memory: Memory) -> Plan:
    """The customer wants money back."""
    done = yield Call("list_orders", {})
    mine = {order.number: order for order in read_orders(done.result)}
    number = order_number_in(text)
    paid = [order.number for order in mine.values() if order.paid and order.back < order.total]
    if number is None and len(paid) == 1:
        number = paid[0]
    if number is None:
        return f"Which order is it about? Say, for example, “refund order 7”.\n{done.result}"
    order = mine.get(number)
    if order is None:
        return f"I find no order {number} of yours.\n{done.result}"
    if not order.paid:
        return f"Order {number} has not been paid, so there is nothing to give back."
    if order.back >= order.total:
        return f"Order {number} has been given back in full already."
    return (yield from give_back(number, cents_in(text) or order.total - order.back, memory))


def give_back(number: int, cents: int, memory: Memory) -> Plan:
    """Try it; where the tool may not, post a blocking request for staff."""
    done = yield Call("refund", {"order_id": number, "cents": cents})
    if done.ok and done.result.startswith("Refunded"):
        return f"Done. {done.result}"
    if done.ok and done.result.startswith("Not refunded.") and "needs an approval" not in done.result:
        return done.result
    what = f"Refund {money(cents)} for order {number}"
    if any(request.request.startswith(what) for request in memory.waiting_for("approval:refund")):
        return f"I have asked the staff about that already ({what}) and am still waiting for their answer."
    request = (
        f"{what}\nThe customer asks for it in the chat. Answer “approved” to allow exactly this; anything else is a no."
    )
    yield from memory.post("approval:refund", request, blocking=True)
    yield from memory.task(what, f"Waiting for a decision: {what}", "in_progress")
    return (
        f"{money(cents)} is more than I may give back by myself, so I have asked the staff, and I wait for their answer. "
        "You will read it here. Until then, ask me anything else."
    )
