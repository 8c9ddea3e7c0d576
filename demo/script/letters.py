"""What the script does when mail comes: it reads it, does what it was waiting to do, and tells the customer."""

from demo.script.hearing import Call, Letter, asked_of, question_of
from demo.script.memory import Memory, Plan
from demo.script.shelf import find_on, read_shelf
from demo.words import bags_of, cents_in, order_number_in, wanted


def answer(letter: Letter, memory: Memory) -> Plan:
    """The plan for a letter."""
    kind = letter.tag.partition(":")[0]
    if kind == "restock":
        return restock(letter, memory)
    if kind == "pay":
        return payment(letter, memory)
    if letter.tag == "approval:refund":
        return approval(letter, memory)
    if kind == "mesh":
        return peer(letter, memory)
    return other(letter, memory)


def restock(letter: Letter, memory: Memory) -> Plan:
    """Coffee has come in, or somebody has said something about it: tell it, and offer what is really there."""
    sku = letter.tag.partition(":")[2]
    done = yield Call("look_up_stock", {"sku": sku})
    coffee = find_on(read_shelf(done.result), sku)
    name = coffee.name if coffee else sku
    yield from memory.task(f"Tell the customer when {name} is back", f"Waiting for {name}", "completed")
    bags = wanted(letter.request)
    offer = f" Shall I order {bags_of(bags, name)}? Say “yes”." if coffee and coffee.left >= bags else ""
    if letter.answered:
        return f"News about {name}: {letter.response}{offer}"
    return f"About {name}, I got no answer: {_why(letter)}{offer or ' Ask me again whenever you like.'}"


def payment(letter: Letter, memory: Memory) -> Plan:
    """Somebody wrote about a payment; whether it is paid is what the shop's records say."""
    number = letter.tag.partition(":")[2]
    if not number.isdigit():
        return (yield from other(letter, memory))
    done = yield Call("check_payment", {"order_id": int(number)})
    if ", paid" in done.result:
        yield from memory.task(
            f"Take the payment of order {number}", f"Waiting for the payment of order {number}", "completed"
        )
        return f"The payment has arrived. {done.result.partition(',')[0]}, is on its way to you. Thank you!"
    yield from memory.task(
        f"Take the payment of order {number}", f"Waiting for the payment of order {number}", "pending"
    )
    said = f"the answer was: “{letter.response}”" if letter.answered else f"I got no answer: {_why(letter)}"
    return f"I asked for the payment of order {number}, and {said}\nIt is not paid yet. Say “pay order {number}” and I ask again."


def approval(letter: Letter, memory: Memory) -> Plan:
    """Staff have decided about a refund. The tool looks the approval up; the script only points to it."""
    order_id, cents = order_number_in(letter.request), cents_in(letter.request)
    what = letter.request.splitlines()[0]
    if not letter.answered:
        yield from memory.task(what, f"Waiting for a decision: {what}", "completed")
        return f"I asked the staff about “{what}”, and got no answer: {_why(letter)} Nothing was refunded."
    if order_id is None or cents is None:
        return (yield from other(letter, memory))
    done = yield Call("refund", {"order_id": order_id, "cents": cents, "approval": int(letter.item)})
    yield from memory.task(what, f"Waiting for a decision: {what}", "completed")
    if done.ok and done.result.startswith("Refunded"):
        return f"The staff answered: “{letter.response}”\n{done.result}"
    return f"The staff answered: “{letter.response}”\nI take that for a no, so nothing was refunded."


def peer(letter: Letter, memory: Memory) -> Plan:
    """The answer of another agent, or a letter of one."""
    if asked := asked_of(letter.request):
        whom, question = asked
        yield from memory.task(f"Tell the customer: {question}", f"Waiting for the {whom}: {question}", "completed")
        if letter.answered:
            return f"The {whom} writes: {letter.response}"
        return f"I asked the {whom}: “{question}”, and got no answer: {_why(letter)}"
    writer = letter.tag.rpartition("from:")[2]
    return f"A letter came from {writer}: {letter.response}"


def other(letter: Letter, memory: Memory) -> Plan:
    """Mail about something that the script does not know: pass it on."""
    yield from ()
    if not letter.answered:
        return f"I asked: “{question_of(letter.request)}”, and got no answer: {_why(letter)}"
    how = letter.how.rpartition(" at ")[0]
    if letter.how.startswith("sent"):
        return f"A message came for you ({how}): {letter.response}"
    return f"The answer to “{letter.request.splitlines()[0]}” came ({how}): {letter.response}"


def _why(letter: Letter) -> str:
    """How a request ended without an answer, in words for a customer."""
    if letter.how.startswith("expired"):
        return "nobody answered in time."
    if letter.how.startswith("cancelled"):
        return f"the request was closed. “{letter.response}”"
    return "it could not be delivered."
