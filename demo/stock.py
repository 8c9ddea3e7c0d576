"""The stock file: what has come into the shop, written by people in any editor, read anew at every question.

    sku,name,cents,bags
    huila,Huila,1650,0

`GLOVE_DEMO_STOCK` names another file than the one beside this module. A line that cannot be used is left out and told,
and never costs the others. The file is only read, so that nobody's edit is overwritten.
"""

import csv
import io
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from demo.errors import NoSuchCoffee, StockUnreadable

COLUMNS = ["sku", "name", "cents", "bags"]
MAX_BYTES = 256 * 1024
MAX_NUMBER = 1_000_000
MAX_NAME = 100
_SKU = re.compile(r"[a-z0-9-]{1,40}")
_NUMBER = re.compile(r"[0-9]{1,7}")


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
    """The file as it is now. Raises StockUnreadable where there is no file that could be used at all."""
    return parse(_text_of(path()))


def _text_of(file: Path) -> str:
    try:
        with file.open("rb") as source:
            data = source.read(MAX_BYTES + 1)
    except OSError as error:
        raise StockUnreadable(f"The stock file {file} cannot be read ({error.strerror}). Put it back.") from error
    if len(data) > MAX_BYTES:
        raise StockUnreadable(f"The stock file {file} is larger than {MAX_BYTES} bytes. That is not a stock file.")
    try:
        return data.decode("utf-8-sig")  # spreadsheets put a mark in front
    except UnicodeDecodeError as error:
        raise StockUnreadable(f"The stock file {file} is not UTF-8 text. Save it as UTF-8.") from error


def parse(text: str) -> Stock:
    """The coffees in the text of a stock file. Lines that are blank or begin with # are skipped."""
    stock = Stock()
    header_seen = False
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        cells = _cells(line)
        if not header_seen:
            if [cell.lower() for cell in cells] != COLUMNS:
                raise StockUnreadable(f"Line {number} of the stock file must be the header: {','.join(COLUMNS)}")
            header_seen = True
        elif fault := _fault(cells, stock):
            stock.faults.append(f"Line {number} of the stock file is left out: {fault}.")
        else:
            sku, name, cents, bags = cells
            stock.coffees[sku.lower()] = Coffee(sku.lower(), name, int(cents), int(bags))
    if not header_seen:
        raise StockUnreadable(f"The stock file is empty. Its first line must be: {','.join(COLUMNS)}")
    return stock


def _cells(line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader(io.StringIO(line)), [])]
    except csv.Error:
        return []


def _fault(cells: list[str], stock: Stock) -> str:
    """What is wrong with a line, or nothing."""
    if len(cells) != len(COLUMNS):
        return f"it has {len(cells)} values, not {len(COLUMNS)}"
    sku, name, cents, bags = cells
    if not _SKU.fullmatch(sku.lower()):
        return f"the sku {sku!r} is not made of the characters a-z 0-9 -"
    if sku.lower() in stock.coffees:
        return f"the sku {sku!r} stands in an earlier line"
    if not name or len(name) > MAX_NAME or not name.isprintable():
        return f"the name is not 1 to {MAX_NAME} visible characters"
    for column, cell in (("cents", cents), ("bags", bags)):
        if not _NUMBER.fullmatch(cell) or int(cell) > MAX_NUMBER:
            return f"{column} is {cell!r}, not a whole number from 0 to {MAX_NUMBER}"
    return ""
