"""What the script does with a customer's words: a handful of intents, told apart by plain words."""

import re
from collections.abc import Callable, Generator

from demo.script.hearing import SEND, Call, Done, question_of
from demo.script.memory import Memory, Plan
from demo.script.refunds import refund
from demo.script.shelf import OnShelf, find_on, is_named, read_orders, read_shelf
from demo.words import bags_of, count_in, money, order_number_in
from inbox.text import first_line

ABILITIES = (
    "I am the shop's scripted concierge: no language model, just a few rules. Try:\n"
    "• what coffee do you have?\n"
    "• order 2 bags of Yirgacheffe\n"
    "• order 3 bags of Huila (it is out: I wait for it)\n"
    "• when is the next roast of Huila? (I ask the roaster)\n"
    "• my orders · pay order 2 · refund order 1\n"
    "• what is 2+2?\n"
    "• what are you waiting for? · forget the Huila"
)

BANK = "(In this demo you are the bank: “manage.py demo” prints the command that pays order {number}.)"


def answer(text: str, memory: Memory) -> Plan:
    """The plan for what the customer said."""
    lowered = text.lower()
    for pattern, plan in INTENTS:
        if re.search(pattern, lowered):
            return plan(text, memory)
    return name_or_unknown(text, memory)


# --- Coffee
def stock(text: str, memory: Memory) -> Plan:
    """Is it there, what does it cost, what is there at all."""
    done = yield Call("look_up_stock", {})
    shelf = read_shelf(done.result)
    if not shelf:
        return f"I cannot look at the shelf: {done.result}"
    if coffee := find_on(shelf, text):
        return _say(coffee)
    return "We have:\n" + "\n".join(f"• {_say(coffee)}" for coffee in shelf)


def _say(coffee: OnShelf) -> str:
    there = f"{bags_of(coffee.left, coffee.name)} left" if coffee.left else f"{coffee.name} is out of stock"
    return f"{there}, {coffee.price} a bag."


def order(text: str, memory: Memory) -> Plan:
    """Order it; where there is not enough, ask to be told and go on."""
    done = yield Call("look_up_stock", {})
    shelf = read_shelf(done.result)
    if not shelf:
        return f"I cannot look at the shelf: {done.result}"
    coffee = find_on(shelf, text)
    if coffee is None:
        return f"Which coffee would you like? We have {', '.join(coffee.name for coffee in shelf)}."
    return (yield from _order(coffee, count_in(text) or 1, memory))


def _order(coffee: OnShelf, bags: int, memory: Memory) -> Plan:
    done = yield Call("place_order", {"sku": coffee.sku, "bags": bags})
    if "Not enough" in done.result:
        return (yield from _wait_for(coffee, bags, memory))
    placed = re.match(r"Order (\d+) is placed: (.+), not paid yet", done.result)
    if not placed:
        return done.result
    number, what = placed.groups()
    yield from _ask_for_payment(number, what, memory)
    return f"Order {number} is yours: {what}. I tell you here as soon as it is paid.\n{BANK.format(number=number)}"


def _ask_for_payment(number: str, what: str, memory: Memory) -> Generator[Call, Done, None]:
    yield from memory.post(f"pay:{number}", f"{what}. Has it been paid?\nAnswer “paid” when the money is there.")
    yield from memory.task(
        f"Take the payment of order {number}", f"Waiting for the payment of order {number}", "in_progress"
    )


def _wait_for(coffee: OnShelf, bags: int, memory: Memory) -> Plan:
    tag = f"restock:{coffee.sku}"
    if any(request.request.startswith(bags_of(bags, coffee.name)) for request in memory.waiting_for(tag)):
        return f"{coffee.name} is still out. I am waiting for it and will write to you here."
    request = f"{bags_of(bags, coffee.name)}, when they are in.\nThe customer asked for them; {coffee.left} left now."
    yield from memory.post(tag, request)
    yield from memory.task(f"Tell the customer when {coffee.name} is back", f"Waiting for {coffee.name}", "in_progress")
    there = f"only {coffee.left} left" if coffee.left else "out of stock"
    return (
        f"{coffee.name} is {there}, so I have asked to be told when {bags_of(bags, coffee.name)} can be had. "
        "I will write to you here; you need not wait. Can I do something else?"
    )


def yes(text: str, memory: Memory) -> Plan:
    """Take up the offer that the last reply made."""
    offered = re.search(r"Shall I order (\d+) bags? of (.+?)\?", memory.last_reply)
    if not offered:
        return "I am not sure what to do. " + ABILITIES
    done = yield Call("look_up_stock", {})
    coffee = find_on(read_shelf(done.result), offered[2])
    if coffee is None:
        return f"I cannot find {offered[2]} any more.\n{done.result}"
    return (yield from _order(coffee, int(offered[1]), memory))


def name_or_unknown(text: str, memory: Memory) -> Plan:
    """A coffee's name alone is a question about it; anything else gets what the script can do."""
    done = yield Call("look_up_stock", {})
    coffee = find_on(read_shelf(done.result), text)
    return _say(coffee) if coffee else "That is beyond me. " + ABILITIES


def roast(text: str, memory: Memory) -> Plan:
    """Only the roaster knows: ask it by letter, and go on."""
    done = yield Call("look_up_stock", {})
    shelf = read_shelf(done.result)
    named = [coffee.name for coffee in shelf if is_named(text, coffee.sku, coffee.name)]
    of = re.search(r"\broasts? of (?:the |your )?([\w-]+)", text, re.IGNORECASE)
    if shelf and not named and of and of[1].lower() not in ("coffee", "coffees", "beans", "all", "any", "week", "day"):
        return f"We do not sell {of[1]}. We have {', '.join(coffee.name for coffee in shelf)}."
    question = first_line(f"When is the next roast{' of ' if named else ''}{' and '.join(named)}?")
    if any(question_of(request.request) == question for request in memory.waiting_for("mesh:waiting:")):
        return f"I have asked the roaster that already: “{question}” I will write to you here."
    if SEND not in memory.tools:
        return "Only the roaster knows that, and I cannot write to it."
    sent = yield Call(SEND, {"to": "roaster", "content": question, "blocking": True})
    if not sent.ok:
        return "Only the roaster knows that, and my letter to it did not go out. Ask me again later."
    yield from memory.task(f"Tell the customer: {question}", f"Waiting for the roaster: {question}", "in_progress")
    return "Only the roaster knows that. I have asked, and will write to you here. Can I do something else meanwhile?"


# --- Orders
def orders(text: str, memory: Memory) -> Plan:
    """What has been ordered."""
    done = yield Call("list_orders", {})
    return f"Your orders:\n{done.result}" if read_orders(done.result) else done.result


def pay(text: str, memory: Memory) -> Plan:
    """Is it paid; and where it is not, ask for the payment once."""
    done = yield Call("list_orders", {})
    mine = {order.number: order for order in read_orders(done.result)}
    unpaid = [number for number, order in mine.items() if not order.paid]
    number = order_number_in(text) or (unpaid[0] if len(unpaid) == 1 else None)
    if number is None:
        return f"Which order is it about? Say, for example, “pay order 7”.\n{done.result}"
    if number not in mine:
        return f"I find no order {number} of yours.\n{done.result}"
    if mine[number].paid:
        return f"Order {number} is paid."
    if not list(memory.waiting_for(f"pay:{number}")):
        order = mine[number]
        yield from _ask_for_payment(str(number), f"{order.what}, {money(order.total)}", memory)
    return f"Order {number} is not paid yet. I wait for the payment and tell you here.\n{BANK.format(number=number)}"


# --- About itself
def waiting(text: str, memory: Memory) -> Plan:
    """What the agent waits for."""
    yield from ()
    if not memory.open:
        return "I am not waiting for anything."
    lines = [
        f"• {question_of(request.request)}{' (I said that I would wait for this)' if request.blocking else ''}"
        for request in memory.open.values()
    ]
    return "I am waiting for:\n" + "\n".join(lines)


def forget(text: str, memory: Memory) -> Plan:
    """Withdraw a request that is still open."""
    if number := order_number_in(text):
        return f"I cannot take order {number} back. If it is paid, say “refund order {number}”."
    done = yield Call("look_up_stock", {})
    coffee = find_on(read_shelf(done.result), text)
    found = list(memory.waiting_for(f"restock:{coffee.sku}" if coffee else "restock:"))
    if not found or (coffee is None and len(found) > 1):
        return "What shall I forget? I can stop waiting for a coffee: say “forget the Huila”."
    for request in found:
        yield Call(
            "glove_update_inbox", {"id": request.item, "action": "withdraw", "reason": "The customer needs it no more."}
        )
    name = coffee.name if coffee else found[0].tag.partition(":")[2]
    yield from memory.task(f"Tell the customer when {name} is back", f"Waiting for {name}", "completed")
    return f"I no longer wait for {name}."


def calculate(text: str, memory: Memory) -> Plan:
    """Two numbers and a sign between them."""
    yield from ()
    found = re.search(SUM, text)
    assert found
    first, sign, second = int(found[1]), found[2], int(found[3])
    if sign in "/÷:":
        if not second:
            return "Nothing can be divided by zero."
        whole, rest = divmod(first, second)
        return f"{first} ÷ {second} is {whole}{f', and {rest} over' if rest else ''}."
    results = {"+": first + second, "-": first - second, "−": first - second}
    return f"{first} {sign} {second} is {results.get(sign, first * second)}."


def hello(text: str, memory: Memory) -> Plan:
    """A greeting."""
    yield from ()
    return "Hello! " + ABILITIES


def thanks(text: str, memory: Memory) -> Plan:
    """Thanks, or goodbye."""
    yield from ()
    return "You are welcome. I am here whenever you need me."


def abilities(text: str, memory: Memory) -> Plan:
    """Help."""
    yield from ()
    return ABILITIES


# When it is roasted, and not whether a coffee is a dark roast.
ROAST = (
    r"\b(when|next|how soon|what day|which day)\b.*\broast"
    r"|\broast\w*\b.*\b(when|next|plan|day|week|today|tomorrow|soon)\b|\broasts? of\b|^\W*roasts?\W*$"
)
SUM = r"(?<![\d.,#])(\d{1,12})\s*([-+*×x/÷:−])\s*(\d{1,12})(?![\d.,])"

# The first that fits decides.
INTENTS: tuple[tuple[str, Callable[[str, Memory], Plan]], ...] = (
    (r"\bwaiting\b|\bany (news|word)\b|\bpending\b|\bstatus\b|\binbox\b", waiting),
    (r"\brefund|\bmoney back\b|\bgive .*\bback\b", refund),
    (r"\b(forget|never ?mind|cancel|withdraw|don'?t need|no longer)\b", forget),
    (ROAST, roast),
    (r"\b(pay|paid|payment|invoice)\b", pay),
    (r"\b(my|list|show|which|what)\b.*\borders?\b|\bdid i order\b", orders),
    (SUM, calculate),
    (
        r"\b(in stock|do you (have|sell)|have you|is there|are there|available|price|cost|how (much|many)|menu|what coffees?)\b",
        stock,
    ),
    (r"\b(order|buy|want|need|take|like|bags?|get)\b", order),
    (r"^\W*(yes|yeah|yep|sure|ok|okay|please|go ahead|do it)\b", yes),
    (r"\b(thanks?|thank you|bye|goodbye|cheers)\b", thanks),
    (r"^\W*(hello|hi|hey|good (morning|day|evening|afternoon))\b", hello),
    (r"\bhelp\b|\bwhat can you\b|\bwho are you\b", abilities),
)
