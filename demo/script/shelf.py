"""What `look_up_stock` and `list_orders` said, read back by the script."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class OnShelf:
    """A line of `look_up_stock`."""

    sku: str
    name: str
    price: str
    left: int


@dataclass(frozen=True)
class Ordered:
    """A line of `list_orders`; money in cents."""

    number: int
    what: str
    total: int
    paid: bool
    back: int


def read_shelf(result: str) -> list[OnShelf]:
    """The coffees in a result; lines that say something else are passed over."""
    lines = re.finditer(r"^([a-z0-9-]+): (.+), (€\d+\.\d\d) a bag, (\d+) left$", result, re.MULTILINE)
    return [OnShelf(sku, name, price, int(left)) for sku, name, price, left in (line.groups() for line in lines)]


def read_orders(result: str) -> list[Ordered]:
    """The orders in a result."""
    lines = re.finditer(
        r"^Order (\d+): (.+), €(\d+)\.(\d\d), (not paid|paid)(?:, €(\d+)\.(\d\d) given back)?$", result, re.MULTILINE
    )
    return [
        Ordered(int(number), what, _cents(euros, cents), paid == "paid", _cents(back_euros, back_cents))
        for number, what, euros, cents, paid, back_euros, back_cents in (line.groups() for line in lines)
    ]


def find_on(shelf: list[OnShelf], text: str) -> OnShelf | None:
    """The first coffee that a text names."""
    return next((coffee for coffee in shelf if is_named(text, coffee.sku, coffee.name)), None)


def is_named(text: str, sku: str, name: str) -> bool:
    """Whether a text names a coffee, by its sku or by a word of its name."""
    words = set(re.findall(r"[\w-]+", text.lower()))
    return bool(words & {sku, *(word for word in name.lower().split() if len(word) > 3)})


def _cents(euros: str | None, cents: str | None) -> int:
    return int(euros or 0) * 100 + int(cents or 0)
