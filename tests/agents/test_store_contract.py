"""Both stores pass the contract; groups are switches; a half-made group is an error of the system check."""

import datetime
import threading

import pytest
from django.utils import timezone

from agents import Agent, ToolContext, checks, registry, tool
from agents.adapters.base import ModelError
from agents.builtin import INBOX_TOOLS, TASK_TOOLS
from agents.entries import Entry
from agents.errors import BadDeclaration, PutOff, TurnFailed
from agents.models import Turn
from agents.stores.base import GROUPS, StoreAdapter
from agents.stores.database import DatabaseStore
from agents.stores.memory import MemoryStore
from agents.testing.store_contract import StoreContract
from agents.toolbox import tools_for
from tests.agents.kit import transcript
from tests.agents.scripts import post, use
from tests.factories import ConversationFactory, MailboxFactory, backdate


class TestMemoryStore(StoreContract):
    def make_store(self):
        return MemoryStore()


@pytest.mark.django_db
class TestDatabaseStore(StoreContract):
    def make_store(self):
        return DatabaseStore(ConversationFactory(mailbox=MailboxFactory(agent=self.AGENT)))


def forget(store):
    StoreAdapter.subclasses.remove(store)


@pytest.fixture
def bare():
    """A store with the required methods only."""

    class Bare(MemoryStore):
        get_inbox_items = add_inbox_item = update_inbox_item = get_resolved_inbox_items = None
        get_tasks = add_tasks = update_task = None
        get_permission = set_permission = None

    yield Bare
    forget(Bare)


def test_a_bare_store_runs_an_agent_without_the_groups(bare, declare, script):
    """Nothing to configure: what the store lacks is not offered, and a gated tool is refused."""

    @tool(permission=True)
    def gated() -> str:
        """Gated."""
        raise AssertionError

    @tool
    def look(ctx: ToolContext) -> str:
        """Look."""
        return ctx.mailbox

    agent = declare(gated, look)
    model = script([use("gated"), use("look")], "Good.")
    store = bare("mine")
    assert agent.run(store, "Go.") == "Good."
    assert model.tools == ["gated", "look"]
    assert [(call.status, call.result[:7]) for call in store.get_messages()[1].calls] == [
        ("denied", "Refused"),
        ("done", "mine"),
    ]


def test_a_key_does_not_come_again_in_the_next_process(declare, script):
    """A store that begins anew counts its turns and calls from one again; the service would take them for the old ones."""
    keys = []

    @tool
    def pay(ctx: ToolContext) -> str:
        """Pay."""
        keys.append(ctx.idempotency_key)
        return "Paid."

    agent = declare(pay)
    for model_id in ("toolu_1", "toolu_2"):
        script({"type": "tool_use", "id": model_id, "name": "pay", "input": {}}, "Good.")
        agent.run(MemoryStore("mine"), "Go.")
    assert len(set(keys)) == 2


@pytest.mark.parametrize(
    ("group", "tools"),
    [("inbox", INBOX_TOOLS), ("tasks", TASK_TOOLS), ("permissions", ())],
)
def test_a_group_switches_its_tools(group, tools, declare):
    missing = dict.fromkeys(GROUPS[group])
    without = type("Without", (MemoryStore,), missing)
    try:
        agent = declare()
        assert {tool.name for tool in tools} == set(tools_for(agent, MemoryStore())) - set(tools_for(agent, without()))
        assert not without.has(group)
        assert MemoryStore.has(group)
    finally:
        forget(without)


@pytest.mark.parametrize("group", GROUPS)
def test_a_half_implemented_group_is_an_error_of_the_system_check(group):
    first, *rest = GROUPS[group]
    base = type("Required", (StoreAdapter,), {})
    half = type("Half", (base,), {first: lambda self: None})
    try:
        assert base.half_done() == {}
        (found,) = checks.check_stores()
        assert found.id == "agents.E001"
        assert "Half" in found.msg
        assert group in found.msg
        assert all(method in found.hint for method in rest)
    finally:
        forget(half)
        forget(base)
    assert checks.check_stores() == []


def test_a_toolset_adds_tools_and_a_name_stands_once(declare, monkeypatch):
    """How another app brings its tools."""

    @tool
    def look() -> str:
        """Look."""
        return ""

    monkeypatch.setattr(registry, "toolsets", [lambda agent, store: [look] if agent.mesh else []])
    assert "look" not in tools_for(declare(), MemoryStore())
    assert "look" in tools_for(declare(mesh=True), MemoryStore())
    with pytest.raises(BadDeclaration, match="two tools named look"):
        tools_for(declare(look, mesh=True), MemoryStore())


def test_a_store_of_ones_own_compacts_too(declare, script):
    agent = declare(limits={"compact_at_tokens": 100})
    script(post("pay:1", "Paid?"), "SUMMARY", "Good.")
    store = MemoryStore()
    assert agent.run(store, "x" * 500) == "Good."
    head = store.get_messages()[0]
    assert (head.kind, "SUMMARY" in head.text, "(pay:1): Paid?" in head.text) == ("summary", True, True)


def test_a_turn_that_fails_on_a_store_says_so(declare, script):
    agent, store = declare(), MemoryStore()
    script(ModelError("refusal"), ModelError("overloaded"), "Good.")
    with pytest.raises(TurnFailed, match="refused"):
        agent.run(store, "Hello.")
    with pytest.raises(PutOff):
        agent.run(store, "Again.")
    assert agent.run(store, "") == "Good."
    assert [entry.text for entry in store.get_messages()] == ["Hello.", "Again.", "Good."]


@pytest.mark.django_db
def test_the_database_store_runs_its_turn_here(conversation, declare, script):
    """Agent.run on the models: a real turn, with its journal."""
    script("Hi.", ModelError("refusal"), ModelError("overloaded"))
    store, agent = DatabaseStore(conversation), registry.get_agent("tester")
    assert agent.run(store, "Hello.") == "Hi."
    with pytest.raises(TurnFailed):
        agent.run(store, "Hello?")
    with pytest.raises(PutOff):
        agent.run(store, "")
    backdate(Turn.objects.get(status="queued"), 1, "not_before")
    assert agent.run(store, "") == "Done."
    assert agent.run(store, "") == ""  # nothing is left to answer
    assert [kind for *_, kind in transcript(conversation)] == ["Hello.", "Hi.", "Hello?", "Done."]


def test_threads_on_one_memory_store():
    store = MemoryStore()

    def work(number):
        for n in range(50):
            with store.atomic():
                store.append_messages([Entry("user", f"{number}.{n}"), Entry("agent", f"{number}.{n}")])
                store.add_tokens(1)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    texts = [entry.text for entry in store.get_messages()]
    assert len(texts) == 400
    assert texts[::2] == texts[1::2]  # no pair is torn apart
    assert store.get_token_count() == 200


def test_an_expired_item_of_a_memory_store(monkeypatch):
    store = MemoryStore()
    item = store.add_inbox_item(tag="a", request="b?", due_in_s=60)
    later = timezone.now() + datetime.timedelta(seconds=61)
    monkeypatch.setattr(timezone, "now", lambda: later)
    (found,) = store.get_resolved_inbox_items()
    assert (found.id, found.outcome, found.resolved_via) == (item.id, "expired", "deadline")


def test_agents_are_declared_once_even_on_stores():
    with registry.isolated():
        Agent("mine", instructions="x")
        with pytest.raises(BadDeclaration):
            Agent("mine", instructions="x")
