"""The roasting plan is written by people in any editor: whatever they leave in it is read, or told in plain words."""

import contextlib
import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo import roasts
from demo.errors import SheetUnreadable

HEADER = "sku,day,bags\n"
WEDNESDAY = datetime.date(2026, 12, 2)


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "roasts.csv"
    monkeypatch.setenv("GLOVE_DEMO_ROASTS", str(path))
    stock = tmp_path / "stock.csv"
    stock.write_text("sku,name,cents,bags\nhuila,Huila,1650,0\ndecaf,Sierra Decaf,1550,1\ntea,Tea,100,1\n")
    monkeypatch.setenv("GLOVE_DEMO_STOCK", str(stock))
    monkeypatch.setattr("django.utils.timezone.localdate", lambda *given: WEDNESDAY)
    return path


def test_the_file_that_ships_has_no_fault():
    plan = roasts.read()
    assert not plan.faults
    assert {roast.sku for roast in plan.roasts} >= {"huila", "yirgacheffe"}


def test_the_next_roast_comes_first_by_its_name_and_no_day_is_called_today(file):
    """A letter may be read tomorrow."""
    file.write_text(f"{HEADER}huila,monday,12\nyirgacheffe,Thursday,20\ndecaf, WEDNESDAY ,1\nhuila,Thursday,8\n")
    plan = roasts.read()
    assert roasts.told(plan) == [
        "decaf: Wednesday 2 December, 1 bag of Sierra Decaf",
        "huila: Thursday 3 December, 8 bags of Huila",
        "yirgacheffe: Thursday 3 December, 20 bags of Yirgacheffe",
        "huila: Monday 7 December, 12 bags of Huila",
    ]
    assert roasts.told(plan, " Huila ") == [
        "huila: Thursday 3 December, 8 bags of Huila",
        "huila: Monday 7 December, 12 bags of Huila",
    ]
    assert roasts.told(plan, "tea") == []
    assert roasts.missing(plan) == ["tea: Tea, not on the plan"]


def test_a_broken_stock_file_costs_the_names_and_no_more(file, monkeypatch):
    monkeypatch.setenv("GLOVE_DEMO_STOCK", str(file))  # a sheet of another kind
    file.write_text(f"{HEADER}decaf,Friday,3\n")
    assert roasts.told(roasts.read()) == ["decaf: Friday 4 December, 3 bags of Decaf"]
    assert roasts.missing(roasts.read()) == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("huila,Thursday", "it has 2 values, not 3"),
        ("hu la,Thursday,1", "the sku 'hu la' is not made of"),
        ("huila,Someday,1", "day is 'Someday', not a day of the week"),
        ("huila,2026-12-03,1", "day is '2026-12-03', not a day of the week"),
        ("huila,Thursday,0", "bags is '0', not a whole number from 1"),
        ("Decaf,friday,2", "the sku 'Decaf' stands in an earlier line for that day"),
        ("huila,Thursday,many", "bags is 'many', not a whole number"),
    ],
)
def test_a_bad_line_is_left_out_and_told_and_costs_no_other(file, line, says):
    file.write_text(f"{HEADER}decaf,Friday,1\n{line}\nlast,Friday,1\n")
    plan = roasts.read()
    assert [roast.sku for roast in plan.roasts] == ["decaf", "last"]
    (fault,) = plan.faults
    assert fault.startswith("Line 3 of the roasting plan is left out: ")
    assert says in fault
    assert roasts.told(plan) == [
        "decaf: Friday 4 December, 1 bag of Sierra Decaf",
        "last: Friday 4 December, 1 bag of Last",
    ]


def test_a_file_that_cannot_be_used_says_why(file):
    with pytest.raises(SheetUnreadable, match=r"The roasting plan .* cannot be read"):
        roasts.read()
    for text, says in (("", "is empty"), ("a,b\n", "must be the header: sku,day,bags")):
        file.write_text(text)
        with pytest.raises(SheetUnreadable, match=says):
            roasts.read()
    file.write_bytes("sku,day,bags\nhuila,Donnerstág,12\n".encode("latin-1"))
    with pytest.raises(SheetUnreadable, match="is not UTF-8 text"):
        roasts.read()


@given(st.text())
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(SheetUnreadable):
        roasts.parse(HEADER + text)
        roasts.parse(text)
