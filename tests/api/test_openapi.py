"""The description of the API is part of the contract: a change of it is a visible difference of openapi.json.

To take a change over: GLOVE_TEST_UPDATE=1 python -m pytest tests/api/test_openapi.py
"""

import json
import os
from pathlib import Path
from typing import get_args

import pytest
from ninja import Schema

from agents import api_schemas, models
from inbox import api as inbox_api
from inbox.errors import InboxError
from inbox.http import errors, problems
from inbox.models import Item
from inbox.services.keys import SCOPES
from tests.api.kit import BASE
from tests.environment import ROOT

SNAPSHOT = Path(__file__).with_name("openapi.json")


@pytest.fixture
def served(client):
    response = client.get(f"{BASE}/openapi.json")
    assert response.status_code == 200
    return response.json()


def operations(served):
    return [(path, method, found) for path, methods in served["paths"].items() for method, found in methods.items()]


def test_as_it_was(served):
    if os.environ.get("GLOVE_TEST_UPDATE") == "1":
        SNAPSHOT.write_text(json.dumps(served, indent=1, sort_keys=True) + "\n")
    known = json.loads(SNAPSHOT.read_text())
    changed = {
        f"{part} {name}"
        for part in ("paths", "components")
        for name in known[part].keys() | served[part].keys()
        if known[part].get(name) != served[part].get(name)
    }
    assert served == known, (
        f"The API changed in {changed or 'its head'}. If it should: GLOVE_TEST_UPDATE=1 (see above)."
    )


def test_both_ways_in(served):
    assert set(served["components"]["securitySchemes"]) == {"key", "session", "csrf"}
    for path, method, operation in operations(served):
        session = {"session": []} if method == "get" else {"session": [], "csrf": []}
        assert operation["security"] == [{"key": []}, session], path


def test_errors_are_problems(served):
    for path, _, operation in operations(served):
        for status, response in operation["responses"].items():
            kind = "application/json" if status < "400" else "application/problem+json"
            assert list(response["content"]) == [kind], (path, status)


def test_posts_take_an_idempotency_key(served):
    for path, method, operation in operations(served):
        names = [parameter["name"] for parameter in operation["parameters"]]
        assert ("Idempotency-Key" in names) == (method == "post"), path


def test_operations_have_names_of_their_own(served):
    names = [operation["operationId"] for *_, operation in operations(served)]
    assert len(set(names)) == len(names)


def test_schemas_have_names_of_their_own():
    """Two of a name would stand in the description as one."""
    ours = [kind for kind in every_kind(Schema) if kind.__module__.split(".")[0] in ("inbox", "agents", "mesh", "demo")]
    names = [kind.__name__ for kind in ours if not kind.__pydantic_generic_metadata__["args"]]
    assert not {name for name in names if names.count(name) > 1}


def every_kind(kind):
    return [found for child in kind.__subclasses__() for found in (child, *every_kind(child))]


@pytest.mark.parametrize(
    ("schema", "field", "choices"),
    [
        (inbox_api.ItemOut, "status", Item.Status),
        (inbox_api.ItemOut, "outcome", Item.Outcome),
        (inbox_api.ItemOut, "resolved_via", Item.Via),
        (inbox_api.ItemFilters, "status", Item.Status),
        (api_schemas.ConversationOut, "status", models.Conversation.Status),
        (api_schemas.MessageOut, "sender", models.Message.Sender),
        (api_schemas.MessageOut, "kind", models.Message.Kind),
        (api_schemas.ToolCallOut, "status", models.ToolCall.Status),
        (api_schemas.TurnOut, "status", models.Turn.Status),
        (api_schemas.TaskOut, "status", models.Task.Status),
        (api_schemas.PermissionOut, "decision", models.Permission.Decision),
        (api_schemas.PermissionOut, "scope", models.Permission.Scope),
    ],
)
def test_every_state_of_a_row_is_described(schema, field, choices):
    parts = get_args(schema.model_fields[field].annotation)
    found = {value for part in parts for value in (get_args(part) or [part])}
    assert found - {type(None)} == set(choices.values)


def test_the_page_of_reference_names_every_type_and_scope():
    page = (ROOT / "docs" / "reference" / "api.md").read_text()
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, InboxError)]
    slugs = {kind.slug for kind in kinds if kind is not InboxError} | {slug for slug, _ in problems.PLAIN.values()}
    missing = {word for word in slugs | set(SCOPES) if f"`{word}`" not in page}
    assert not missing
