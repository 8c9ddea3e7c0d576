"""Only services write state: no other module of inbox, agents or mesh holds a statement that changes a row.

Read from the source: `.save()`, `.objects...create()`, `.update(column=...)`, `.delete()`, and SQL that begins with a verb of
change. What a variable holds cannot be seen there, so this catches the slip, not the trick.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.environment import ROOT

APPS = ("inbox", "agents", "mesh")
# The writers themselves, and what Django writes with. `hot.py` is the services' plain SQL.
WRITERS = ("services", "migrations", "hot.py")
THROUGH_A_MANAGER = {
    "bulk_create",
    "bulk_update",
    "create",
    "delete",
    "get_or_create",
    "update",
    "update_or_create",
}
CHANGES = ("INSERT", "UPDATE", "DELETE", "TRUNCATE")


def names(node: ast.expr) -> Iterator[str]:
    """The attribute names of a chain such as `Item.objects.filter(...)`, from the last to the first."""
    while True:
        if isinstance(node, ast.Attribute):
            yield node.attr
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            return


def first_words(call: ast.Call) -> str:
    """The beginning of a call's first argument where that is text."""
    argument = call.args[0] if call.args else None
    if isinstance(argument, ast.JoinedStr):
        argument = argument.values[0]
    return (
        argument.value.lstrip().upper()
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
        else ""
    )


def writes(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    verb, receiver = call.func.attr, call.func.value
    if verb in THROUGH_A_MANAGER and {"objects", "_default_manager"} & set(names(receiver)):
        return True
    if verb in ("execute", "executemany"):
        return first_words(call).startswith(CHANGES)
    columns_only = bool(call.keywords) and not call.args
    return (
        verb == "save"
        or (verb == "update" and columns_only)
        or (verb == "delete" and not call.args and not call.keywords)
    )


def lines_that_write(source: str) -> list[int]:
    return [node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and writes(node)]


def modules() -> list[Path]:
    found = [path for app in APPS for path in (ROOT / app).rglob("*.py")]
    return [path for path in found if not set(WRITERS) & set(path.relative_to(ROOT).parts)]


def test_no_other_module_writes():
    breaches = [f"{path.relative_to(ROOT)}:{line}" for path in modules() for line in lines_that_write(path.read_text())]
    assert not breaches, f"Only services write state; move these there: {', '.join(breaches)}"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("item.save(update_fields=['rung'])", [1]),
        ("Item.objects.filter(pk=1).update(rung=True)", [1]),
        ("rows.update(rung=True)", [1]),
        ("Item.objects.create(tag='a')", [1]),
        ("turn.delete()", [1]),
        ("cursor.execute(f'UPDATE agents_turn SET {columns}')", [1]),
        ("cursor.execute('SELECT 1')\ndigest.update(data)\nItem.objects.filter(pk=1).first()", []),
    ],
)
def test_the_reader_sees_a_write(source, expected):
    assert lines_that_write(source) == expected
