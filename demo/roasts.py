"""The roasting plan: what is roasted on which day of the week, written by people in any editor, read anew at every question.

    sku,day,bags
    huila,Thursday,12

`GLOVE_DEMO_ROASTS` names another file than the one beside this module."""

import calendar
import datetime
import os
from dataclasses import dataclass, field
from pathlib import Path

from django.utils import timezone

from demo import sheets, stock
from demo.errors import SheetUnreadable
from demo.words import bags_of

WHAT = "roasting plan"
COLUMNS = ["sku", "day", "bags"]
ANY = "any_coffee"  # in place of a sku, and none could be spelled so
DAYS = [name.lower() for name in calendar.day_name]


@dataclass(frozen=True)
class Roast:
    """What is roasted every week on this day, 0 for Monday."""

    sku: str
    day: int
    bags: int

    def next(self, today: datetime.date) -> datetime.date:
        """The next time, which may be today."""
        return today + datetime.timedelta(days=(self.day - today.weekday()) % 7)


@dataclass
class Plan:
    """What the file holds, and what is wrong with the lines that were left out."""

    roasts: list[Roast] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def path() -> Path:
    """Where the file is."""
    return Path(os.environ.get("GLOVE_DEMO_ROASTS") or Path(__file__).with_name("roasts.csv"))


def read() -> Plan:
    """The file as it is now. Raises SheetUnreadable."""
    return parse(sheets.text_of(path(), WHAT))


def parse(text: str) -> Plan:
    """The roasts in the text of a plan."""
    plan = Plan()
    seen: set[tuple[str, int]] = set()

    def take(cells: list[str]) -> str:
        sku, day, bags = cells
        if not stock.SKU.fullmatch(sku.lower()):
            return f"the sku {sku!r} is not made of the characters a-z 0-9 -"
        if day.lower() not in DAYS:
            return f"day is {day!r}, not a day of the week such as Thursday"
        if not stock.NUMBER.fullmatch(bags) or not 0 < int(bags) <= stock.MAX_NUMBER:
            return f"bags is {bags!r}, not a whole number from 1 to {stock.MAX_NUMBER}"
        roast = Roast(sku.lower(), DAYS.index(day.lower()), int(bags))
        if (roast.sku, roast.day) in seen:
            return f"the sku {sku!r} stands in an earlier line for that day"
        seen.add((roast.sku, roast.day))
        plan.roasts.append(roast)
        return ""

    plan.faults = list(sheets.rows(text, COLUMNS, WHAT, take))
    return plan


def told(plan: Plan, sku: str = "") -> list[str]:
    """A line for each roast of the coming week, the next one first: `huila: Thursday 3 December, 12 bags of Huila`.

    The day is always named, never called today: who reads it may read it tomorrow.
    """
    today, names = timezone.localdate(), _names()
    found = [roast for roast in plan.roasts if sku.strip().lower() in ("", roast.sku)]
    found.sort(key=lambda roast: (roast.next(today), roast.sku))
    return [
        f"{roast.sku}: {_day(roast.next(today))}, {bags_of(roast.bags, names.get(roast.sku) or roast.sku.capitalize())}"
        for roast in found
    ]


def missing(plan: Plan) -> list[str]:
    """A line for each coffee that the shop sells and the plan does not have: `decaf: Sierra Decaf, not on the plan`."""
    planned = {roast.sku for roast in plan.roasts}
    return [f"{sku}: {name}, not on the plan" for sku, name in _names().items() if sku not in planned]


def _names() -> dict[str, str]:
    """What the shop calls its coffees; nothing where the stock file cannot be read."""
    try:
        return {coffee.sku: coffee.name for coffee in stock.read().coffees.values()}
    except SheetUnreadable:
        return {}


def _day(day: datetime.date) -> str:
    return f"{calendar.day_name[day.weekday()]} {day.day} {calendar.month_name[day.month]}"
