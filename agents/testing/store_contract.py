"""The contract of a store, as tests: a store of one's own passes them, or is none.

    from agents.testing.store_contract import StoreContract

    class TestMyStore(StoreContract):
        def make_store(self):
            return MyStore()

Run it with pytest. What an optional group demands is tested where the store implements the group. `make_store` gives an empty
store each time; the agent that runs on it is named `StoreContract.AGENT`.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.test import override_settings

from agents import Agent, ToolContext, registry, tool
from agents.entries import Call, Entry
from agents.errors import BadTasks
from agents.stores.base import GROUPS, StoreAdapter, StoredTask
from inbox.errors import AlreadyClosed, BadDeadline, BadTag, BlankText, ItemNotFound, TooManyOpenItems


class Undo(Exception):
    """Leaves an `atomic()` so that nothing of it stands."""


class StoreContract:
    """Subclass it and give `make_store`."""

    AGENT = "contract"

    def make_store(self) -> StoreAdapter:
        """An empty store."""
        raise NotImplementedError

    # --- Messages and counters

    def test_it_has_a_name(self) -> None:
        assert isinstance(self.make_store().identifier, str)

    def test_messages_come_back_in_order_and_as_they_were(self) -> None:
        store = self.make_store()
        blocks = '[{"type":"thinking","thinking":"ä","signature":"a+b/=="},{"type":"text","text":"Hi."}]'
        store.append_messages([Entry("user", "Hello. \u00e4 \U0001f44d"), Entry("agent", "Hi.", blocks=blocks)])
        store.append_messages([Entry("user", "And?", "inbox")])
        found = store.get_messages()
        assert [(e.sender, e.text, e.kind, e.blocks) for e in found] == [
            ("user", "Hello. \u00e4 \U0001f44d", "message", ""),
            ("agent", "Hi.", "message", blocks),
            ("user", "And?", "inbox", ""),
        ]

    def test_calls_come_back_with_their_message(self) -> None:
        store = self.make_store()
        calls = [Call("a", "look", '{"x":1}', "done", "Seen."), Call("b", "look", "{}", "failed", "Not seen.")]
        blocks = json.dumps([{"type": "tool_use", "id": call.call_id, "name": "look", "input": {}} for call in calls])
        store.append_messages([Entry("user", "Look."), Entry("agent", "", blocks=blocks, calls=calls)])
        found = store.get_messages()[1].calls
        assert [(c.call_id, c.name, c.input, c.status, c.result) for c in found] == [
            ("a", "look", '{"x":1}', "done", "Seen."),
            ("b", "look", "{}", "failed", "Not seen."),
        ]

    def test_the_history_begins_at_the_last_summary(self) -> None:
        store = self.make_store()
        store.append_messages([Entry("user", "One."), Entry("agent", "Two."), Entry("user", "Summary.", "summary")])
        store.append_messages([Entry("user", "Three.")])
        assert [entry.text for entry in store.get_messages()] == ["Summary.", "Three."]

    def test_what_is_given_out_is_a_copy(self) -> None:
        store = self.make_store()
        store.append_messages([Entry("user", "One.")])
        store.get_messages()[0].text = "Changed."
        assert store.get_messages()[0].text == "One."

    def test_counters(self) -> None:
        store = self.make_store()
        assert (store.get_token_count(), store.get_turn_count()) == (0, 0)
        store.add_tokens(10)
        store.add_tokens(5)
        assert (store.increment_turn(), store.increment_turn()) == (1, 2)
        assert (store.get_token_count(), store.get_turn_count()) == (15, 2)

    def test_atomic_is_all_or_nothing(self) -> None:
        store: Any = self.make_store()
        store.append_messages([Entry("user", "Before.")])
        with store.atomic():
            store.add_tokens(1)
        with _undone(store):
            store.append_messages([Entry("user", "Inside.")])
            store.add_tokens(10)
            store.increment_turn()
            if store.has("inbox"):
                store.add_inbox_item(tag="a", request="b?")
            if store.has("tasks"):
                store.add_tasks([StoredTask("Ask", "Asking", "pending")])
            if store.has("permissions"):
                store.set_permission("look", "grant", scope="any")
        assert [entry.text for entry in store.get_messages()] == ["Before."]
        assert (store.get_token_count(), store.get_turn_count()) == (1, 0)
        assert not store.has("inbox") or store.get_inbox_items() == []
        assert not store.has("tasks") or store.get_tasks() == []
        assert not store.has("permissions") or store.get_permission("look", "{}") is None

    def test_an_inner_atomic_undoes_only_itself(self) -> None:
        store = self.make_store()
        with store.atomic():
            store.append_messages([Entry("user", "Outer.")])
            with _undone(store):
                store.append_messages([Entry("user", "Inner.")])
        assert [entry.text for entry in store.get_messages()] == ["Outer."]

    # --- Groups

    def test_a_group_is_there_as_a_whole_or_not_at_all(self) -> None:
        store = self.make_store()
        assert type(store).half_done() == {}
        for group, methods in GROUPS.items():
            assert store.has(group) == all(callable(getattr(store, method, None)) for method in methods)

    def test_a_posted_item_is_pending(self) -> None:
        for store in self._with("inbox"):
            item = store.add_inbox_item(tag="restock:beans", request="Beans?", blocking=True, due_in_s=3600)
            assert (item.tag, item.request, item.status, item.blocking) == ("restock:beans", "Beans?", "pending", True)
            assert (item.response, item.outcome, item.resolved_at) == ("", "", None)
            assert item.due_at is not None
            assert [one.id for one in store.get_inbox_items()] == [item.id]

    def test_an_identical_open_request_is_joined(self) -> None:
        for store in self._with("inbox"):
            first = store.add_inbox_item(tag="a", request="b?")
            assert store.add_inbox_item(tag="a", request="b?").id == first.id
            assert store.add_inbox_item(tag="a", request="c?").id != first.id
            store.update_inbox_item(first.id, action="withdraw")
            assert store.add_inbox_item(tag="a", request="b?").id != first.id

    def test_what_may_not_be_posted(self) -> None:
        for store in self._with("inbox"):
            _refused(BadTag, store.add_inbox_item, tag="a b", request="b?")
            _refused(BadTag, store.add_inbox_item, tag="mesh:x", request="b?")
            _refused(BlankText, store.add_inbox_item, tag="a", request=" ")
            _refused(BadDeadline, store.add_inbox_item, tag="a", request="b?", due_in_s=0)
            for number in range(20):
                store.add_inbox_item(tag="a", request=f"{number}?")
            _refused(TooManyOpenItems, store.add_inbox_item, tag="a", request="one more?")

    def test_items_by_status_oldest_first(self) -> None:
        for store in self._with("inbox"):
            one, two, three = (store.add_inbox_item(tag="a", request=f"{n}?").id for n in range(3))
            store.update_inbox_item(two, action="resolve", text="Yes.")
            assert [item.id for item in store.get_inbox_items()] == [one, two, three]
            assert [item.id for item in store.get_inbox_items("pending")] == [one, three]
            assert [item.id for item in store.get_inbox_items(status="resolved")] == [two]

    def test_resolved_items_come_in_the_order_of_resolving(self) -> None:
        for store in self._with("inbox"):
            ids = [store.add_inbox_item(tag="a", request=f"{n}?").id for n in range(3)]
            for index in (2, 0, 1):
                store.update_inbox_item(ids[index], action="resolve", text=f"{index}.")
            found = store.get_resolved_inbox_items()
            assert [item.response for item in found] == ["2.", "0.", "1."]
            assert all(item.outcome == "answered" and item.resolved_at for item in found)

    def test_an_item_makes_only_its_moves(self) -> None:
        for store in self._with("inbox"):
            pending, resolved, consumed, withdrawn = (
                store.add_inbox_item(tag="a", request=f"{n}?").id for n in range(4)
            )
            for item in (resolved, consumed):
                store.update_inbox_item(item, action="resolve", text="Yes.")
            store.update_inbox_item(consumed, action="consume")
            store.update_inbox_item(withdrawn, action="withdraw", text="No more.")
            legal = {(pending, "resolve"), (pending, "withdraw"), (resolved, "consume")}
            for item in (pending, resolved, consumed, withdrawn):
                for action in ("resolve", "consume", "withdraw"):
                    if (item, action) not in legal:
                        error = ItemNotFound if (item, action) == (pending, "consume") else AlreadyClosed
                        _refused(error, store.update_inbox_item, item, action=action, text="Late.")
            states = {item.id: (item.status, item.outcome) for item in store.get_inbox_items()}
            assert states == {
                pending: ("pending", ""),
                resolved: ("resolved", "answered"),
                consumed: ("consumed", "answered"),
                withdrawn: ("consumed", "withdrawn"),
            }

    def test_an_unknown_item_is_not_found(self) -> None:
        for store in self._with("inbox"):
            for item in ("999999", "nonsense", "", None):
                for action in ("resolve", "consume", "withdraw"):
                    _refused(ItemNotFound, store.update_inbox_item, item, action=action)

    def test_the_task_list_is_replaced_as_a_whole(self) -> None:
        for store in self._with("tasks"):
            store.add_tasks([StoredTask("Ask", "Asking", "pending"), StoredTask("Tell", "Telling", "pending")])
            made = store.add_tasks([StoredTask("Wait", "Waiting", "in_progress")])
            assert [(t.content, t.active_form, t.status) for t in made] == [("Wait", "Waiting", "in_progress")]
            assert store.get_tasks() == made
            assert store.update_task(made[0].id, "completed").status == "completed"
            assert store.get_tasks()[0].status == "completed"
            _refused(BadTasks, store.update_task, made[0].id, "later")
            _refused(BadTasks, store.update_task, "999999", "pending")
            _refused(BadTasks, store.add_tasks, [StoredTask("x", "x", "later")])
            assert len(store.get_tasks()) == 1

    def test_permissions_tell_arguments_apart_and_a_denial_wins(self) -> None:
        for store in self._with("permissions"):
            assert store.get_permission("look", '{"x":1}') is None
            store.set_permission("look", "grant", scope="arguments", arguments='{"x":1}')
            assert store.get_permission("look", '{"x":1}') == "grant"
            assert store.get_permission("look", '{"x":2}') is None
            assert store.get_permission("other", '{"x":1}') is None
            store.set_permission("look", "grant", scope="any")
            assert store.get_permission("look", '{"x":2}') == "grant"
            store.set_permission("look", "deny", scope="arguments", arguments='{"x":2}')
            assert store.get_permission("look", '{"x":2}') == "deny"
            assert store.get_permission("look", '{"x":1}') == "grant"

    def test_a_grant_for_one_call_is_used_up_by_it(self) -> None:
        for store in self._with("permissions"):
            store.set_permission("look", "grant", scope="call", arguments='{"x":1}')
            assert store.use_permission("look", '{"x":2}') is None
            assert store.get_permission("look", '{"x":1}') == "grant"
            assert store.use_permission("look", '{"x":1}') == "grant"
            assert store.use_permission("look", '{"x":1}') is None
            store.set_permission("look", "grant", scope="arguments", arguments='{"x":1}')
            assert [store.use_permission("look", '{"x":1}') for _ in range(2)] == ["grant", "grant"]
            store.set_permission("look", "deny", scope="any")
            assert store.use_permission("look", '{"x":1}') == "deny"

    # --- The loop on it

    def test_an_agent_runs_on_it(self) -> None:
        store = self.make_store()
        with self._agent("Hi.") as (agent, prompts):
            assert agent.run(store, "Hello.") == "Hi."
        assert [(entry.sender, entry.text) for entry in store.get_messages()] == [("user", "Hello."), ("agent", "Hi.")]
        assert store.get_turn_count() == 1
        assert store.get_token_count() > 0
        assert len(prompts) == 1

    def test_the_tools_of_a_group_are_there_with_the_group(self) -> None:
        store = self.make_store()
        with self._agent("Hi.") as (agent, prompts):
            agent.run(store, "Hello.")
        offered = prompts[0][1]
        assert ("glove_post_to_inbox" in offered) == ("glove_update_inbox" in offered) == store.has("inbox")
        assert ("glove_update_tasks" in offered) == store.has("tasks")

    def test_a_tool_runs_and_its_result_stays(self) -> None:
        store = self.make_store()
        with self._agent([_use("look", word="x"), _use("look", word="y")], "Seen both.") as (agent, prompts):
            assert agent.run(store, "Look.") == "Seen both."
        calls = store.get_messages()[1].calls
        assert [(call.status, call.result) for call in calls] == [("done", "Seen x."), ("done", "Seen y.")]
        assert [block["content"] for block in prompts[1][0][-1]["content"]] == ["Seen x.", "Seen y."]

    def test_mail_is_read_once(self) -> None:
        for store in self._with("inbox"):
            post = _use("glove_post_to_inbox", tag="a", request="Yes or no?", blocking=True)
            with self._agent(post, "I asked.", "Thanks.", "Still here.") as (agent, prompts):
                agent.run(store, "Ask.")
                assert "Reminder" in str(prompts[1][0][-1])
                store.update_inbox_item(store.get_inbox_items("pending")[0].id, action="resolve", text="Yes!")
                assert agent.run(store, "") == "Thanks."
                agent.run(store, "And now?")
            assert str(prompts[2][0]).count("Yes!") == str(prompts[3][0]).count("Yes!") == 1
            assert "Reminder" not in str(prompts[2][0])
            assert [item.status for item in store.get_inbox_items()] == ["consumed"]
            assert [entry.kind for entry in store.get_messages()].count("inbox") == 1

    def test_a_gated_tool_runs_only_with_a_grant(self) -> None:
        store: Any = self.make_store()
        with self._agent(_use("gated"), "Refused.", _use("gated"), "Done.") as (agent, _):
            agent.run(store, "Try.")
            assert store.get_messages()[1].calls[0].status == "denied"
            if store.has("permissions"):
                store.set_permission("gated", "grant", scope="any")
            agent.run(store, "Again.")
        last = store.get_messages()[-2].calls[0]
        assert last.status == ("done" if store.has("permissions") else "denied")

    def test_a_gated_call_uses_its_grant_up(self) -> None:
        for store in self._with("permissions"):
            store.set_permission("gated", "grant", scope="call", arguments="{}")
            with self._agent([_use("gated"), _use("gated")], "Done once.") as (agent, _):
                agent.run(store, "Go.")
            assert [call.status for call in store.get_messages()[1].calls] == ["done", "denied"]

    def test_an_atomic_tool_that_fails_leaves_nothing(self) -> None:
        for store in self._with("inbox"):
            with self._agent(_use("breaks"), "Oh.") as (agent, _):
                assert agent.run(store, "Go.") == "Oh."
            assert store.get_inbox_items() == []
            assert store.get_messages()[1].calls[0].status == "failed"

    # --- Inside

    def _with(self, group: str) -> list[Any]:
        """A store in a list, or none where it does not implement the group."""
        store = self.make_store()
        return [store] if store.has(group) else []

    @contextmanager
    def _agent(self, *replies: Any) -> Iterator[tuple[Agent, list[Any]]]:
        """An agent whose model gives these replies, and what its model was given: (messages, names of tools)."""
        left, prompts = list(replies), []

        def script(messages: Any, tools: Any) -> Any:
            prompts.append((messages, [tool.name for tool in tools]))
            return left.pop(0)

        model = {"BACKEND": "agents.adapters.scripted.ScriptedModel", "OPTIONS": {"script": script}}
        with registry.isolated(), override_settings(AGENT_MODELS={"default": model}):
            registry.agents.pop(self.AGENT, None)
            yield Agent(self.AGENT, instructions="Be brief.", tools=[look, gated, breaks]), prompts


@tool
def look(word: str) -> str:
    """Look."""
    return f"Seen {word}."


@tool(permission=True)
def gated() -> str:
    """Only with a grant."""
    return "Done."


@tool(atomic=True)
def breaks(ctx: ToolContext) -> str:
    """Post, and fail."""
    ctx.post("a", "b?")
    raise ValueError


def _use(tool_name: str, /, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "", "name": tool_name, "input": given}


@contextmanager
def _undone(store: Any) -> Iterator[None]:
    try:
        with store.atomic():
            yield
            raise Undo
    except Undo:
        pass


def _refused(error: type[Exception], act: Callable[..., Any], *values: Any, **given: Any) -> None:
    try:
        act(*values, **given)
    except error:
        return
    raise AssertionError(f"{error.__name__} was expected")
