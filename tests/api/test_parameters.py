"""No route passes over a parameter that it does not know: a misspelt filter would answer with everything."""

import json
import re
from pathlib import Path

import pytest

from tests.api.kit import Caller, assert_problem, by_key

# As the API describes itself; test_openapi.py keeps this true, so a new route is in it.
DESCRIBED = json.loads(Path(__file__).with_name("openapi.json").read_text())["paths"]
ROUTES = [(method.upper(), path, found) for path, methods in DESCRIBED.items() for method, found in methods.items()]

pytestmark = pytest.mark.django_db


def takes(operation):
    return [one["name"] for one in operation["parameters"] if one["in"] == "query"]


def filled(path):
    """The route's address, of things that need not be there: names are read before the route is asked."""
    return re.sub(r"\{.*?\}", "1", path)


@pytest.mark.parametrize(
    ("method", "path", "operation"), ROUTES, ids=lambda part: part if isinstance(part, str) else ""
)
def test_an_unknown_one_is_refused_with_those_that_there_are(world, method, path, operation):
    known = takes(operation)
    for name in ("stauts", *(known_one.upper() for known_one in known)):
        response = by_key(world.root)(method, f"{filled(path)}?{name}=pending")
        problem = assert_problem(response, 422, "unknown-parameter")
        assert problem["known"] == known
        assert repr(name) in problem["detail"]
        assert all(word in problem["detail"] for word in known)


def test_there_are_lists_with_parameters():
    lists = [path for method, path, operation in ROUTES if method == "GET" and "limit" in takes(operation)]
    assert {"/api/v1/inbox/items", "/api/v1/conversations", "/api/v1/mesh/peers"} <= set(lists)


def test_who_calls_is_asked_first():
    assert_problem(Caller().get("/inbox/items?stauts=pending"), 401, "not-authenticated")


def test_a_name_is_shown_without_what_it_could_do(world):
    problem = assert_problem(by_key(world.root).get("/inbox/items?%E2%80%AEtag=x"), 422, "unknown-parameter")
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in problem["detail"]
