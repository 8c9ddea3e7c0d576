"""Running tools: invalid calls never run; failures, timeouts and long results become results; atomic ones are all or nothing."""

import threading
import time
from typing import Annotated

import pytest
from django.db import OperationalError, connection, transaction
from pydantic import AfterValidator

from agents import ToolContext, tool
from agents.adapters.base import ModelError, Reply, ToolUse, Usage
from agents.adapters.blocks import dumps
from agents.entries import Call
from agents.errors import BadTasks, PutOff, TurnFailed
from agents.models import Task, ToolCall, Turn
from agents.services import hot, turns
from agents.services.conversations import say
from inbox.models import Item
from tests.agents.kit import ask, assert_sound, calls, last_turn, open_turn, run_queued
from tests.agents.scripts import post, results, use
from tests.factories import backdate, fresh


@pytest.fixture
def ran():
    """What the tools of a test did."""
    return []


@pytest.fixture
def note(ran):
    @tool
    def note(word: str, times: int = 1) -> str:
        """Note a word."""
        ran.append((word, times))
        return f"Noted {word}."

    return note


# --- What never runs
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (use("note"), "word: Field required"),
        (use("note", word=7), "word: Input should be a valid string"),
        (use("note", word="x", times="many"), "times: Input should be a valid integer"),
        (use("note", word="x", extra=1), "extra: Extra inputs are not permitted"),
        (use("nothing", word="x"), "There is no tool named 'nothing'"),
        (use("NOTE", word="x"), "There is no tool named 'NOTE'"),
        ({"type": "tool_use", "id": "", "name": "note", "input": '{"word": "x'}, "not a valid JSON object"),
        ({"type": "tool_use", "id": "", "name": "note", "input": '["x"]'}, "not a valid JSON object"),
        ({"type": "tool_use", "id": "", "name": "note", "input": '{"word": NaN}'}, "not a valid JSON object"),
        ({"type": "tool_use", "id": "", "name": "note", "input": '{"word": "a\\u0000"}'}, "not a valid JSON object"),
        ({"type": "tool_use", "id": "", "name": "note", "input": '{"word": "x", "word": "y"}'}, "not a valid JSON"),
        ({"type": "tool_use", "id": "", "name": "", "input": {"word": "x"}}, "not a valid JSON object"),
    ],
)
def test_an_invalid_call_is_answered_and_not_run(conversation, declare, script, note, ran, call, words):
    """Promise 12, cases 36 and 37: the model is told why, once, and the turn goes on."""
    declare(note)
    model = script(call, "Oh.")
    assert ask(conversation) == "done"
    assert ran == []
    (told,) = results(model.prompts[1])
    assert words in told["content"]
    assert told["is_error"]
    assert_sound()


@pytest.mark.parametrize("where", ["validator", "permission"])
def test_a_rule_of_the_developers_that_breaks_refuses_the_call(conversation, declare, script, ran, where):
    """Gated, not run; and it is the call that fails, not the turn."""

    def broken(word):
        raise KeyError(word)

    hint = Annotated[str, AfterValidator(broken)] if where == "validator" else str

    @tool(permission=broken if where == "permission" else False)
    def note(word: hint) -> str:
        """Note."""
        ran.append(word)
        return ""

    declare(note)
    script(use("note", word="x"), "Oh.")
    assert ask(conversation) == "done"
    assert ran == []
    ((_, status, result),) = calls(conversation)
    assert (status, "KeyError" in result) == ("failed", True)


def test_valid_calls_beside_an_invalid_one_run(conversation, declare, script, note, ran):
    declare(note)
    model = script([use("note", word="a"), use("note"), use("note", word="b", times=2)], "Oh.")
    assert ask(conversation) == "done"
    assert ran == [("a", 1), ("b", 2)]
    assert [block.get("is_error", False) for block in results(model.prompts[1])] == [False, True, False]


def cut(name, partial):
    """A reply that max_tokens cut off in the input of its last call."""
    block = {"type": "tool_use", "id": "toolu_cut", "name": name, "input": {}}
    use = ToolUse("toolu_cut", name, None, "truncated")
    return Reply(dumps([block]), "", (use,), "max_tokens", Usage(10, 10), "m")


def test_a_call_that_was_cut_off_is_not_run_and_tried_once_with_more_room(
    conversation, declare, script, note, ran, settings
):
    """Case 9: told "truncated"; one larger retry."""
    rooms = []
    declare(note)
    model = script(cut("note", "{}"), use("note", word="x"), "Good.")
    _watch(settings, rooms)
    assert ask(conversation) == "done"
    assert ran == [("x", 1)]
    assert "cut off" in results(model.prompts[1])[0]["content"]
    assert rooms == [4096, 8192, 4096]
    assert_sound()


def test_a_call_that_is_cut_off_twice_fails_the_turn(conversation, declare, script, note, ran):
    declare(note)
    model = script(cut("note", "{}"), cut("note", "{}"), "Good.")
    assert ask(conversation) == "failed"
    assert (last_turn(conversation).reason, ran, len(model.prompts)) == ("truncated", [], 2)
    assert ask(conversation, "Again?") == "done"
    assert_sound()


def _watch(settings, rooms):
    """Keep the max_tokens of each model call."""
    from agents.adapters.base import get_model

    reply = get_model("default").reply

    def watched(**given):
        rooms.append(given["max_tokens"])
        return reply(**given)

    get_model("default").reply = watched


def test_a_stream_that_broke_is_no_call(conversation, declare, script, note, ran):
    """Case 10: the model is called again as a whole; what it had sent is nowhere."""
    declare(note)
    script(ModelError("cut_stream"), use("note", word="whole"), "Good.")
    say(conversation.pk, "Go.")
    assert run_queued(conversation) == ["put_off"]
    assert not ToolCall.objects.exists()
    backdate(open_turn(conversation), 1, "not_before")
    assert run_queued(conversation) == ["done"]
    assert ran == [("whole", 1)]


def test_two_calls_with_one_id(conversation, declare, script, note, ran):
    """Case 16: ids are made unique within the message, and each has its one result."""
    declare(note)
    model = script([use("note", "toolu_1", word="a"), use("note", "toolu_1", word="b")], "Good.")
    assert ask(conversation) == "done"
    assert ran == [("a", 1), ("b", 1)]
    asked = [block["id"] for block in model.prompts[1][1]["content"]]
    told = [block["tool_use_id"] for block in results(model.prompts[1])]
    assert asked == told
    assert len(set(asked)) == 2
    assert [block["content"] for block in results(model.prompts[1])] == ["Noted a.", "Noted b."]
    assert_sound()


def test_an_id_of_an_earlier_reply_is_no_obstacle(conversation, declare, script, note, ran):
    declare(note)
    model = script(use("note", "toolu_1", word="a"), use("note", "toolu_1", word="b"), "Good.")
    assert ask(conversation) == "done"
    assert ran == [("a", 1), ("b", 1)]
    assert len({block["tool_use_id"] for block in results(model.prompts[2])}) == 2


def test_calls_run_one_after_another_in_the_models_order(conversation, declare, script, ran):
    @tool
    def step(n: int) -> str:
        """Step."""
        running = ToolCall.objects.filter(status="running").count()
        done = ToolCall.objects.filter(status="done").count()
        ran.append((n, running, done))
        return str(n)

    declare(step)
    script([use("step", n=n) for n in (3, 1, 2)], "Good.")
    assert ask(conversation) == "done"
    assert ran == [(3, 1, 0), (1, 1, 1), (2, 1, 2)]
    assert list(ToolCall.objects.order_by("position").values_list("result", flat=True)) == ["3", "1", "2"]
    assert_sound()


# --- What becomes of a run
@pytest.mark.parametrize("error", [ValueError("no such order"), KeyError("x"), BadTasks(), ZeroDivisionError()])
def test_an_exception_is_a_failed_result(conversation, declare, script, error):
    @tool
    def broken() -> str:
        """Break."""
        raise error

    declare(broken)
    model = script(use("broken"), "Oh.")
    assert ask(conversation) == "done"
    (told,) = results(model.prompts[1])
    assert told["is_error"]
    assert (str(error) if isinstance(error, BadTasks) else type(error).__name__) in told["content"]
    assert_sound()


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("a\x00b\ud800c", "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c"),
        ("", ""),
        (" \n", " \n"),
        ({"ok": True}, '{"ok":true}'),
        ("\u202egnp.exe", "\u202egnp.exe"),
    ],
)
def test_a_result_is_made_storable_and_told(conversation, declare, script, value, stored):
    """Case 36: from a tool, what cannot be stored is replaced by a visible mark; a blank one says so."""

    @tool
    def give() -> object:
        """Give."""
        return value

    declare(give)
    model = script(use("give"), "Thanks.")
    assert ask(conversation) == "done"
    assert ToolCall.objects.get().result == stored
    assert results(model.prompts[1])[0]["content"] == (stored if stored.strip() else "(no output)")


@pytest.mark.parametrize("how", ["returned", "raised"])
def test_a_long_result_is_cut_with_a_mark(conversation, declare, script, how):
    @tool
    def long() -> str:
        """Long."""
        if how == "raised":
            raise ValueError("ü" * 200_000)
        return "ü" * 200_000

    declare(long)
    script(use("long"), "Thanks.")
    assert ask(conversation) == "done"
    result = ToolCall.objects.get().result
    assert len(result.encode()) <= 100 * 1024
    assert "[cut here: 400" in result


@pytest.mark.django_db(transaction=True)
def test_no_transaction_is_open_while_a_tool_or_the_model_works(conversation, declare, script, ran):
    """Promise 15. (In a test that commits: one that rolls back has a transaction of its own.)"""

    @tool
    def look() -> str:
        """Look."""
        ran.append(connection.in_atomic_block)
        return "Seen."

    declare(look)
    script(use("look"), lambda messages: ran.append(connection.in_atomic_block) or "Good.")
    assert ask(conversation) == "done"
    assert ran == [False, False]


def test_the_context_tells_a_tool_whom_it_serves(conversation, declare, script, ran):
    @tool
    def who(ctx: ToolContext) -> str:
        """Who."""
        ran.append((ctx.mailbox, ctx.conversation, ctx.idempotency_key))
        return ctx.post("restock:beans", "Beans?", blocking=True, due_in_s=60)

    declare(who)
    script([use("who"), use("who")], "Good.")
    assert ask(conversation) == "done"
    item = Item.objects.get()
    assert (item.blocking, item.origin) == (True, conversation.pk)
    assert [result for *_, result in calls(conversation)] == [str(item.pk)] * 2
    assert {(mailbox, talk) for mailbox, talk, _ in ran} == {(conversation.mailbox.address, str(conversation.pk))}
    assert len({key for *_, key in ran}) == 2


def test_a_key_does_not_come_again_with_a_rows_number():
    """In a restored backup, or on another site, the next call gets a number that the service has seen."""
    one, other = Call("toolu_1", "pay", "{}", id=7), Call("toolu_2", "pay", "{}", id=7)
    assert one.key == Call("toolu_1", "pay", "{}", "running", id=7).key
    assert len({one.key, other.key, Call("toolu_1", "pay", "{}", id=8).key}) == 3
    assert Call("t" * 200, "pay", "{}", id=2**63 - 1).key.isascii()
    assert len(Call("t" * 200, "pay", "{}", id=2**63 - 1).key) < 64


# --- Retries and timeouts
def test_retries_run_at_once_with_the_same_key(conversation, declare, script, ran):
    @tool(idempotent=True, retries=2)
    def flaky(ctx: ToolContext) -> str:
        """Try."""
        ran.append(ctx.idempotency_key)
        if len(ran) < 3:
            raise ConnectionError
        return "Third time."

    declare(flaky)
    script(use("flaky"), "Good.")
    assert ask(conversation) == "done"
    assert calls(conversation) == [("flaky", "done", "Third time.")]
    assert len(ran) == 3
    assert len(set(ran)) == 1


def test_after_the_last_retry_it_failed(conversation, declare, script, ran):
    @tool(idempotent=True, retries=1)
    def flaky() -> str:
        """Try."""
        ran.append(1)
        raise ConnectionError("down")

    declare(flaky)
    script(use("flaky"), "Oh.")
    assert ask(conversation) == "done"
    assert (calls(conversation), len(ran)) == ([("flaky", "failed", "ConnectionError: down")], 2)


@pytest.mark.django_db(transaction=True)
def test_past_its_timeout_the_outcome_is_unknown(conversation, declare, script, ran):
    """The turn goes on at once, and does not run it again."""
    over = threading.Event()

    @tool(timeout=0.3)
    def slow() -> str:
        """Slow."""
        over.wait(20)
        ran.append(1)
        return "Done after all."

    declare(slow)
    model = script(use("slow"), "I do not know.")
    began = time.monotonic()
    assert ask(conversation) == "done"
    assert time.monotonic() - began < 5
    ((_, status, result),) = calls(conversation)
    assert (status, "0.3 s" in result) == ("unknown", True)
    assert "unknown" in results(model.prompts[1])[0]["content"]
    over.set()
    while not Item.objects.filter(tag="tool:slow").exists():  # the late result comes as mail, once
        time.sleep(0.02)
    assert calls(conversation) == [("slow", "unknown", result)]
    assert ran == [1]
    while threading.active_count() > 1 and any(thread.name == "tool slow" for thread in threading.enumerate()):
        time.sleep(0.02)
    run_queued(conversation)
    assert_sound()


@pytest.mark.django_db(transaction=True)
def test_a_tool_within_its_timeout_is_like_any_other(conversation, declare, script):
    @tool(timeout=10)
    def quick(ctx: ToolContext) -> str:
        """Quick."""
        return ctx.post("a", "b?")

    @tool(timeout=10)
    def broken() -> str:
        """Broken."""
        raise ValueError("no")

    declare(quick, broken)
    script([use("quick"), use("broken")], "Good.")
    assert ask(conversation) == "done"
    assert [status for _, status, _ in calls(conversation)] == ["done", "failed"]
    assert Item.objects.count() == 1


@pytest.mark.parametrize("options", [{}, {"timeout": 30}, {"atomic": True}], ids=["plain", "timed", "atomic"])
@pytest.mark.parametrize(
    "error", [TurnFailed("refusal", "It would not."), PutOff("overloaded", "Full."), SystemExit(2)], ids=repr
)
@pytest.mark.django_db(transaction=True)
def test_what_ends_another_turn_or_program_is_a_failed_result_here(conversation, declare, script, error, options):
    """A tool may run an agent on a store of its own, or a command's main(): their end is not this turn's."""

    @tool(**options)
    def delegate() -> str:
        """Let somebody else do it."""
        raise error

    declare(delegate)
    script(use("delegate"), "It did not work.")
    assert ask(conversation) == "done"
    ((_, status, result),) = calls(conversation)
    assert (status, result) == ("failed", f"{type(error).__name__}: {error}")
    assert_sound()


# --- Atomic
@pytest.mark.parametrize("how", ["raises", "database"])
def test_an_atomic_tool_that_fails_leaves_nothing_but_its_failed_call(conversation, declare, script, how):
    @tool(atomic=True)
    def plan(ctx: ToolContext) -> str:
        """Plan."""
        Task.objects.create(conversation_id=ctx.conversation, position=0, content="x")
        ctx.post("a", "b?")
        if how == "raises":
            raise ValueError("no")
        Task.objects.create(conversation_id=ctx.conversation, position=0, content="twice")
        return "Planned."

    declare(plan)
    model = script(use("plan"), "Oh.")
    assert ask(conversation) == "done"
    assert not Task.objects.exists()
    assert not Item.objects.exists()
    ((_, status, result),) = calls(conversation)
    assert (status, ("ValueError: no" if how == "raises" else "IntegrityError") in result) == ("failed", True)
    assert results(model.prompts[1])[0]["is_error"]
    assert_sound()


def test_an_atomic_tool_and_its_journal_row_are_one_transaction(conversation, declare, script, ran):
    """Promise 11: at the moment of its death nothing of it stands, so it runs again, once."""

    class Death(BaseException):
        pass

    @tool(atomic=True)
    def plan(ctx: ToolContext) -> str:
        """Plan."""
        Task.objects.create(conversation_id=ctx.conversation, position=0, content="x")
        ran.append(ToolCall.objects.get().status)
        if len(ran) == 1:
            raise Death
        return "Planned."

    declare(plan)
    script(use("plan"), "Good.")
    say(conversation.pk, "Plan.")
    turn = open_turn(conversation)
    with pytest.raises(Death):
        turns.start(turn.pk)
    assert (ToolCall.objects.get().status, Task.objects.count()) == ("pending", 0)
    backdate(turn, 1, "lease_until")
    assert turns.start(turn.pk) == "done"
    assert (ran, Task.objects.count()) == (["running", "running"], 1)
    assert calls(conversation) == [("plan", "done", "Planned.")]
    assert_sound()


@pytest.mark.parametrize("error", ["aborted transaction", "wrong SQL"])
@pytest.mark.django_db(transaction=True)
def test_a_fault_in_an_atomic_tools_own_sql_is_its_own(conversation, declare, script, error):
    """Not the database's, for which the turn would be put off again and again for a day."""

    @tool(atomic=True)
    def clumsy() -> str:
        """Clumsy."""
        with connection.cursor() as cursor:
            if error == "wrong SQL":
                cursor.execute("SELECT nothing FROM nowhere")
            try:
                cursor.execute("SELECT nothing FROM nowhere")
            except Exception:
                cursor.execute("SELECT 1" if connection.vendor == "postgresql" else "SELECT nothing FROM nowhere")
        return "Never."

    declare(clumsy)
    script(use("clumsy"), "Oh.")
    assert ask(conversation) == "done"
    assert [status for _, status, _ in calls(conversation)] == ["failed"]


@pytest.mark.django_db(transaction=True)
def test_a_database_that_goes_away_in_an_atomic_tool_is_no_result(conversation, declare, script):
    """The turn is put off, and the call runs when the database is back."""
    away = [True]

    @tool(atomic=True)
    def plan() -> str:
        """Plan."""
        if away.pop() if away else False:
            raise OperationalError("server closed the connection unexpectedly")
        return "Planned."

    declare(plan)
    script(use("plan"), "Good.")
    say(conversation.pk, "Plan.")
    assert run_queued(conversation) == ["put_off"]
    assert ToolCall.objects.get().status == "pending"
    backdate(open_turn(conversation), 1, "not_before")
    assert run_queued(conversation) == ["done"]
    assert calls(conversation) == [("plan", "done", "Planned.")]


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_an_atomic_tool_whose_session_fell_idle_has_failed(conversation, declare, script):
    """It waited for something that is no database. Put off, it would hold its mailbox's lock again and again for a day."""

    @tool(atomic=True)
    def slow(ctx: ToolContext) -> str:
        """Slow."""
        ctx.post("a", "b?")
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 50")
        time.sleep(0.5)
        ctx.post("a", "c?")
        return "Never."

    declare(slow)
    script(use("slow"), "Oh.")
    assert ask(conversation) == "done"
    assert [status for _, status, _ in calls(conversation)] == ["failed"]
    assert not Item.objects.exists()
    assert_sound()


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_statement_of_an_atomic_tool_has_five_seconds(conversation, declare, script):
    @tool(atomic=True)
    def slow() -> str:
        """Slow."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(30)")
        return "Never."

    declare(slow)
    script(use("slow"), "Oh.")
    began = time.monotonic()
    assert ask(conversation) == "done"
    assert 4 < time.monotonic() - began < 12
    assert [status for _, status, _ in calls(conversation)] == ["failed"]


@pytest.mark.django_db(transaction=True)
def test_an_atomic_tool_that_dawdles_is_taken_back(conversation, declare, script, monkeypatch):
    """Promise 15: at most 5 s, also where the time is not spent in one statement."""
    from agents.services import calls as journal

    @tool(atomic=True)
    def slow(ctx: ToolContext) -> str:
        """Slow."""
        ctx.post("a", "b?")
        time.sleep(0.3)
        return "Late."

    monkeypatch.setattr(journal, "ATOMIC_S", 0.2)
    declare(slow)
    script(use("slow"), "Oh.")
    assert ask(conversation) == "done"
    ((_, status, result),) = calls(conversation)
    assert (status, "0.2 s" in result) == ("failed", True)
    assert not Item.objects.exists()


@pytest.mark.parametrize("atomic", [False, True])
def test_a_worker_that_was_overtaken_before_a_tool_starts_none(conversation, declare, script, ran, atomic):
    """The last moment: the reply is kept, the rule is asked, and there another worker takes the turn. The call is that one's."""

    def overtaken():
        if not ran:
            hot.claim(backdate(last_turn(conversation), 1, "lease_until").pk, 30)
        return False

    @tool(atomic=atomic, permission=overtaken)
    def work() -> str:
        """Work."""
        ran.append(1)
        return "Done."

    declare(work)
    script(use("work"))
    say(conversation.pk, "Go.")
    assert run_queued(conversation) == ["fenced"]
    assert (ran, ToolCall.objects.get().status) == ([], "pending")


# --- After a crash
def die_in(conversation, declare, script, tools, uses):
    """Start the turn of a question, whose worker dies in one of the tools; the turn, ready to be taken over."""
    declare(*tools)
    script(uses)
    say(conversation.pk, "Go.")
    turn = open_turn(conversation)
    with pytest.raises(Death):
        turns.start(turn.pk)
    return backdate(turn, 1, "lease_until")


class Death(BaseException):
    """The worker's end, as seen from inside."""


def dying(ran, **options):
    @tool(**options)
    def die(ctx: ToolContext) -> str:
        """Die the first time."""
        ran.append(ctx.idempotency_key)
        if len(ran) == 1:
            raise Death
        return "Second time."

    return die


def test_a_started_call_is_unknown_after_a_crash_and_one_not_started_runs(conversation, declare, script, note, ran):
    """Cases 2 and 3 from inside: finished, started, not started -> kept, unknown, run; none ran twice."""
    deaths = []
    turn = die_in(
        conversation, declare, script, [note, dying(deaths)], [use("note", word="a"), use("die"), use("note", word="b")]
    )
    model = script("Good.")
    assert turns.start(turn.pk) == "done"
    assert [status for _, status, _ in calls(conversation)] == ["done", "unknown", "done"]
    assert (ran, len(deaths)) == ([("a", 1), ("b", 1)], 1)
    told = results(model.prompts[0])
    assert [block["content"] for block in told][::2] == ["Noted a.", "Noted b."]
    assert "outcome of this call is unknown" in told[1]["content"]
    assert_sound()


def test_an_idempotent_call_runs_again_with_its_key(conversation, declare, script):
    ran = []
    turn = die_in(conversation, declare, script, [dying(ran, idempotent=True)], [use("die")])
    script("Good.")
    assert turns.start(turn.pk) == "done"
    assert len(ran) == 2
    assert len(set(ran)) == 1
    assert calls(conversation) == [("die", "done", "Second time.")]
    assert_sound()


def test_a_call_whose_tool_is_gone_after_a_crash_is_answered(conversation, declare, script, note, ran):
    """Weeks may pass, and a deploy: checked again against what there is now."""
    turn = die_in(
        conversation, declare, script, [note, dying([], idempotent=True)], [use("die"), use("note", word="a")]
    )
    declare()
    model = script("Good.")
    assert turns.start(turn.pk) == "done"
    assert [status for _, status, _ in calls(conversation)] == ["unknown", "failed"]
    assert "no tool named 'note'" in results(model.prompts[0])[1]["content"]
    assert ran == []


@pytest.mark.django_db(transaction=True)
def test_a_call_that_a_lost_database_left_running_is_not_run_twice(conversation, declare, script, monkeypatch):
    """Its result could not be written; the turn gave itself back, and goes on without a lapsed lease."""
    from agents.services import calls as journal

    ran = []

    @tool
    def once() -> str:
        """Once."""
        ran.append(1)
        return "Done."

    declare(once)
    script(use("once"), "I do not know.")
    say(conversation.pk, "Go.")
    with monkeypatch.context() as patch:
        patch.setattr(journal, "AGAIN_S", ())
        patch.setattr(journal.ClaimedTurn, "_settle", _away)
        assert run_queued(conversation) == ["put_off"]
    backdate(open_turn(conversation), 1, "not_before")
    assert run_queued(conversation) == ["done"]
    assert ran == [1]
    assert [status for _, status, _ in calls(conversation)] == ["unknown"]


def _away(self, call, status, result):
    raise OperationalError("server closed the connection unexpectedly")


# --- What the database refuses
MOVES = {
    "pending": {"running", "waiting", "denied", "aborted"},
    "running": {"done", "failed", "unknown"},
    "waiting": {"running", "denied", "aborted", "deferred"},
    "deferred": {"running", "denied", "aborted"},
    "done": set(),
    "failed": set(),
    "unknown": set(),
    "denied": set(),
    "aborted": set(),
}


def made(state):
    from tests.factories import ToolCallFactory

    return ToolCallFactory(**({} if state == "pending" else {state: True}))


@pytest.mark.postgres
@pytest.mark.django_db
@pytest.mark.parametrize("before", MOVES)
@pytest.mark.parametrize("after", MOVES)
def test_only_the_moves_of_the_design_happen(before, after):
    call = made(before)
    other = made(after)
    columns = {name: getattr(other, name) for name in ("status", "started_at", "finished_at")}
    move = ToolCall.objects.filter(pk=call.pk)
    if after in MOVES[before] or after == before:
        assert move.update(**columns) == 1
    else:
        with pytest.raises(Exception, match="is not a move"), transaction.atomic():
            move.update(**columns)
        assert fresh(call).status == before


def test_a_late_write_is_stopped_by_the_calls_state(conversation, declare, script):
    """Not only by the token: while the tool ran, staff or a reclaim settled the call."""

    @tool
    def slow() -> str:
        """Slow."""
        ToolCall.objects.update(status="unknown", finished_at=Turn.objects.get().created_at)
        return "Late."

    declare(slow)
    script(use("slow"))
    say(conversation.pk, "Go.")
    assert run_queued(conversation) == ["fenced"]
    assert calls(conversation) == [("slow", "unknown", "")]


def test_posts_of_one_step_are_in_order(conversation, declare, script):
    declare()
    script([post(request=f"{n}?") for n in range(4)], "Asked.")
    assert ask(conversation) == "done"
    assert list(Item.objects.order_by("pk").values_list("request", flat=True)) == [f"{n}?" for n in range(4)]
