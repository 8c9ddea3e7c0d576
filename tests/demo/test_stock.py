"""The stock file is written by people in any editor: whatever they leave in it is read, or told in plain words."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo import stock
from demo.errors import NoSuchCoffee, SheetUnreadable

HEADER = "sku,name,cents,bags\n"


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "stock.csv"
    monkeypatch.setenv("GLOVE_DEMO_STOCK", str(path))
    return path


def test_the_file_that_ships_has_no_fault():
    shelf = stock.read()
    assert not shelf.faults
    assert shelf.find("huila").bags == 0  # README's story begins with it


def test_reads_what_spreadsheets_write(file):
    file.write_bytes('\ufeffSKU,Name,Cents,Bags\r\n# a note\r\n\r\nHUILA,"Huila, washed",1650, 12 \r\n'.encode())
    coffee = stock.read().find(" Huila ")
    assert (coffee.name, coffee.cents, coffee.bags) == ("Huila, washed", 1650, 12)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("huila,Huila,1650", "it has 3 values, not 4"),
        ("hu la,Huila,1650,1", "the sku 'hu la' is not made of"),
        ("huila,,1650,1", "the name is not"),
        ("huila,Hui\x00la,1650,1", "the name is not"),
        ("huila,Huila,16.50,1", "cents is '16.50', not a whole number"),
        ("huila,Huila,1650,many", "bags is 'many', not a whole number"),
        ("huila,Huila,1650,-1", "bags is '-1', not a whole number"),
        ("huila,Huila,1650,9999999", "bags is '9999999', not a whole number"),
        ("huila,Huila,1650,²", "bags is '²', not a whole number"),
        ("decaf,Again,1,1", "the sku 'decaf' stands in an earlier line"),
        ("x" * 200_000, "it has 0 values, not 4"),
    ],
)
def test_a_bad_line_is_left_out_and_told_and_costs_no_other(file, line, says):
    file.write_text(f"{HEADER}decaf,Decaf,1550,1\n{line}\nlast,Last,1,1\n")
    shelf = stock.read()
    assert list(shelf.coffees) == ["decaf", "last"]
    (fault,) = shelf.faults
    assert fault.startswith("Line 3 of the stock file is left out: ")
    assert says in fault
    with pytest.raises(NoSuchCoffee, match="Line 3"):
        shelf.find("huila")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read"),
        (b"", "is empty"),
        (b"# only a note\n", "is empty"),
        (b"huila;Huila;1650;1\n", "Line 1 of the stock file must be the header: sku,name,cents,bags"),
        (b"\xff\xfe\x00", "is not UTF-8"),
        (b"#" * 300_000, "is larger than"),
    ],
)
def test_a_file_that_cannot_be_used_at_all_is_one_sentence(file, content, says):
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SheetUnreadable, match=says):
        stock.read()


def test_a_folder_in_its_place_is_told(file):
    file.mkdir()
    with pytest.raises(SheetUnreadable, match="cannot be read"):
        stock.read()


@given(st.text())
def test_any_text_is_read_or_refused_in_words(text):
    for whole in (HEADER + text, text):
        with contextlib.suppress(SheetUnreadable):
            assert isinstance(stock.parse(whole).faults, list)
