"""Declaring agents and tools: what a declaration may say, what it becomes, what fails at import."""

import enum
from decimal import Decimal
from typing import Annotated, Literal

import pydantic
import pytest
from django.core.checks import Error
from pydantic import Field

from agents import Agent, ToolContext, checks, registry, tool
from agents.declare import canonical
from agents.errors import BadDeclaration, UnknownAgent
from agents.limits import Limits, limits_for


@pytest.fixture(autouse=True)
def _isolated():
    with registry.isolated():
        yield


def schema(function):
    spec = tool(function).spec
    return spec.name, spec.description, spec.input_schema


# --- The schema
def test_a_schema_comes_from_hints_and_docstring():
    def refund(ctx: ToolContext, order_id: str, cents: int = 100, urgent: bool = False) -> None:
        """Refund an order, in whole cents.

        Only once per order.

        Args:
            order_id: The order's number,
                as printed.
            cents (int): How much.
        """

    name, description, made = schema(refund)
    assert (name, description) == ("refund", "Refund an order, in whole cents.\n\nOnly once per order.")
    assert made["required"] == ["order_id"]
    assert made["additionalProperties"] is False
    assert made["type"] == "object"
    fields = made["properties"]
    assert list(fields) == ["order_id", "cents", "urgent"]
    assert fields["order_id"] == {
        "description": "The order's number, as printed.",
        "title": "Order Id",
        "type": "string",
    }
    assert (fields["cents"]["type"], fields["cents"]["default"], fields["cents"]["description"]) == (
        "integer",
        100,
        "How much.",
    )


def test_rich_hints():
    class Size(enum.Enum):
        SMALL = "s"
        LARGE = "l"

    def order(
        what: Annotated[str, Field(description="What.", max_length=5)],
        size: Size,
        how: Literal["fast", "slow"] = "fast",
        notes: list[str] | None = None,
    ) -> str:
        """Order."""
        return f"{what} {size!r} {how} {notes}"

    made = tool(order)
    fields = made.spec.input_schema["properties"]
    assert fields["what"]["description"] == "What."
    assert fields["what"]["maxLength"] == 5
    assert fields["how"]["enum"] == ["fast", "slow"]
    assert made(None, made.parse({"what": "beans", "size": "l"})) == "beans <Size.LARGE: 'l'> fast None"
    for wrong in ({"what": "beans!", "size": "l"}, {"what": "b", "size": "x"}, {"what": "b", "size": "s", "how": "no"}):
        with pytest.raises(pydantic.ValidationError):
            made.parse(wrong)


def test_a_tool_without_arguments():
    def now() -> str:
        """The time."""
        return "noon"

    assert schema(now)[2]["properties"] == {}
    assert tool(now).parse({}) is not None
    with pytest.raises(pydantic.ValidationError):
        tool(now).parse({"extra": 1})


@pytest.mark.parametrize("name", ["schema", "json", "copy", "dict", "model_name", "validate", "model_config", "_word"])
def test_an_argument_may_have_any_name(name):
    """Also one that the schema's own class uses; without a warning."""
    scope = {"tool": tool}
    exec(f'@tool\ndef f({name}: str) -> str:\n    """Echo."""\n    return {name}', scope)
    made = scope["f"]
    assert made(None, made.parse({name: "x"})) == "x"
    assert canonical(made.parse({name: "x"})) == f'{{"{name}":"x"}}'


def test_the_context_is_the_first_parameter_by_name_or_hint():
    @tool
    def by_name(ctx, word: str) -> str:
        """Echo."""
        return f"{ctx}{word}"

    @tool
    def by_hint(context: ToolContext, word: str) -> str:
        """Echo."""
        return f"{context}{word}"

    @tool
    def without(word: str) -> str:
        """Echo."""
        return word

    assert [one(7, one.parse({"word": "x"})) for one in (by_name, by_hint, without)] == ["7x", "7x", "x"]
    assert [one.takes_context for one in (by_name, by_hint, without)] == [True, True, False]


@pytest.mark.parametrize(
    ("value", "text"),
    [("as it is", "as it is"), (None, ""), (7, "7"), ({"a": [1, None]}, '{"a":[1,null]}'), (Decimal("1.5"), '"1.5"')],
)
def test_a_result_is_text(value, text):
    @tool
    def give() -> object:
        """Give."""
        return value

    assert give(None, give.parse({})) == text


# --- What a declaration may not say
def bad(**options):
    def f(word: str) -> str:
        """Do it."""
        return word

    return lambda: tool(f, **options)


def undescribed(word: str) -> str:
    return word


def unhinted(word) -> str:
    """Do it."""
    return word


def starred(*words: str) -> str:
    """Do it."""
    return ""


def keyworded(**words: str) -> str:
    """Do it."""
    return ""


def positional(word: str, /) -> str:
    """Do it."""
    return word


async def asynchronous(word: str) -> str:
    """Do it."""
    return word


@pytest.mark.parametrize(
    "declare",
    [
        lambda: tool(undescribed),
        lambda: tool(unhinted),
        lambda: tool(starred),
        lambda: tool(keyworded),
        lambda: tool(positional),
        lambda: tool(asynchronous),
        bad(name="has space"),
        bad(name="x" * 65),
        bad(retries=2),
        bad(atomic=True, timeout=3),
        bad(timeout=-1),
        lambda: Agent("no name", instructions="x"),
        lambda: Agent("", instructions="x"),
        lambda: Agent("a", instructions="missing.md"),
        lambda: Agent("a", instructions="x", limits={"speed": 1}),
        lambda: Agent("a", instructions="x", limits={"attempts": 0}),
        lambda: Agent("a", instructions="x", limits={"attempts": "3"}),
        lambda: Agent("a", instructions="x", tools=[bad()(), bad()()]),
        lambda: Agent("a", instructions="x", tools=[bad(name="glove_mine")()]),
    ],
)
def test_a_wrong_declaration_fails_at_import(declare):
    with pytest.raises(BadDeclaration) as refused:
        declare()
    assert len(str(refused.value)) > 20
    assert "a" not in registry.agents


def test_two_agents_of_one_name_fail_at_import():
    Agent("twin", instructions="x")
    with pytest.raises(BadDeclaration, match="Two agents are named 'twin'"):
        Agent("twin", instructions="y")
    assert registry.get_agent("twin").instructions == "x"
    with pytest.raises(UnknownAgent, match="'nobody'"):
        registry.get_agent("nobody")


def test_instructions_may_be_a_file_beside_the_module(tmp_path):
    (tmp_path / "shop.md").write_text("\nBe kind. Ä\n", encoding="utf-8")
    scope = {"Agent": Agent, "__file__": str(tmp_path / "glove.py")}
    exec('agent = Agent("shop", instructions="shop.md")', scope)
    assert scope["agent"].instructions == "Be kind. Ä"
    assert Agent("plain", instructions="Read README.md first.").instructions == "Read README.md first."


def test_everything_of_the_contract_is_accepted_from_the_start():
    @tool(permission=lambda cents: cents > 100, idempotent=True, retries=2, timeout=5)
    def pay(cents: int) -> str:
        """Pay."""
        return ""

    agent = Agent(
        "full",
        instructions="x",
        model="anthropic",
        tools=[pay],
        capabilities=["pay"],
        description="Pays.",
        mesh=True,
        limits={"attempts": 5},
    )
    assert (agent.model, agent.capabilities, agent.mesh) == ("anthropic", ("pay",), True)
    assert (pay.idempotent, pay.retries, pay.timeout) == (True, 2, 5)
    assert [pay.needs_permission(pay.parse({"cents": cents})) for cents in (100, 101)] == [False, True]


# --- Limits
def test_limits_of_an_agent_win_over_those_of_the_settings(settings):
    settings.AGENT_LIMITS = {"attempts": 4, "model_calls": 7}
    limits = limits_for(Agent("a", instructions="x", limits={"attempts": 5}))
    assert (limits.attempts, limits.model_calls, limits.compactions) == (5, 7, Limits.compactions)


@pytest.mark.parametrize("wrong", [{"speed": 1}, {"attempts": -1}, {"attempts": True}, {"lease_s": None}])
def test_wrong_limits_in_the_settings_are_a_system_check(settings, wrong):
    settings.AGENT_LIMITS = wrong
    (found,) = checks.check_limits_setting()
    assert isinstance(found, Error)
    assert next(iter(wrong)) in found.msg


# --- The form in which arguments are compared
def test_canonical_arguments_are_one_form_for_one_meaning():
    """Case 27's last third: keys in another order, defaults left out or given."""

    @tool
    def transfer(cents: int, to: str = "ada") -> None:
        """Transfer."""

    forms = [{"cents": 10}, {"to": "ada", "cents": 10}, {"cents": 10, "to": "ada"}, {"cents": "10"}, {"cents": 10.0}]
    assert {canonical(transfer.parse(form)) for form in forms} == {'{"cents":10,"to":"ada"}'}
    others = [{"cents": 1000}, {"cents": 10, "to": "bob"}, {"cents": 10, "to": "Ada"}]
    assert all(canonical(transfer.parse(form)) != '{"cents":10,"to":"ada"}' for form in others)


def test_canonical_arguments_are_one_form_within_objects_too():
    @tool
    def order(lines: dict[str, int]) -> None:
        """Order."""

    first, second = ({"lines": dict(pairs)} for pairs in ([("b", 2), ("a", 1)], [("a", 1), ("b", 2)]))
    assert canonical(order.parse(first)) == canonical(order.parse(second)) == '{"lines":{"a":1,"b":2}}'


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_json_has_not_are_no_arguments(number):
    """Case 37."""

    @tool
    def weigh(grams: float) -> None:
        """Weigh."""

    with pytest.raises(pydantic.ValidationError):
        weigh.parse({"grams": number})
