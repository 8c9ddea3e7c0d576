"""The stock file: what has come into the shop, written by people in any editor, read anew at every question.

    sku,name,cents,bags
    huila,Huila,1650,0

`GLOVE_DEMO_STOCK` names another file than the one beside this module. A line that cannot be used is left out and told,
and never costs the others. The file is only read, so that nobody's edit is overwritten.
"""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from demo import sheets
from demo.errors import NoSuchCoffee

WHAT = "stock file"
COLUMNS = ["sku", "name", "cents", "bags"]
MAX_NUMBER = 1_000_000
MAX_NAME = 100
SKU = re.compile(r"[a-z0-9-]{1,40}")
NUMBER = re.compile(r"[0-9]{1,7}")


@dataclass(frozen=True)
class Coffee:
    """One kind of coffee: `cents` is the price of a bag, `bags` how many have come in, ever."""

    sku: str
    name: str
    cents: int
    bags: int


@dataclass
class Stock:
    """What the file holds: the coffees by sku, and what is wrong with the lines that were left out."""

    coffees: dict[str, Coffee] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def find(self, sku: str) -> Coffee:
        """The coffee, or NoSuchCoffee: it names what there is, and the faults that may be the reason."""
        if coffee := self.coffees.get(sku.strip().lower()):
            return coffee
        known = ", ".join(self.coffees) or "nothing"
        raise NoSuchCoffee(
            " ".join([f"There is no coffee with the sku {sku!r}. The stock file has: {known}.", *self.faults])
        )


def path() -> Path:
    """Where the file is."""
    return Path(os.environ.get("GLOVE_DEMO_STOCK") or Path(__file__).with_name("stock.csv"))


def read() -> Stock:
    """The file as it is now. Raises SheetUnreadable where there is no file that could be used at all."""
    return parse(sheets.text_of(path(), WHAT))


def parse(text: str) -> Stock:
    """The coffees in the text of a stock file."""
    stock = Stock()

    def take(cells: list[str]) -> str:
        if fault := _fault(cells, stock):
            return fault
        sku, name, cents, bags = cells
        stock.coffees[sku.lower()] = Coffee(sku.lower(), name, int(cents), int(bags))
        return ""

    stock.faults = list(sheets.rows(text, COLUMNS, WHAT, take))
    return stock


def _fault(cells: list[str], stock: Stock) -> str:
    """What is wrong with a line, or nothing."""
    sku, name, cents, bags = cells
    if not SKU.fullmatch(sku.lower()):
        return f"the sku {sku!r} is not made of the characters a-z 0-9 -"
    if sku.lower() in stock.coffees:
        return f"the sku {sku!r} stands in an earlier line"
    if not name or len(name) > MAX_NAME or not name.isprintable():
        return f"the name is not 1 to {MAX_NAME} visible characters"
    for column, cell in (("cents", cents), ("bags", bags)):
        if not NUMBER.fullmatch(cell) or int(cell) > MAX_NUMBER:
            return f"{column} is {cell!r}, not a whole number from 0 to {MAX_NUMBER}"
    return ""
