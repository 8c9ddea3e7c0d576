"""Compaction: the history becomes a summary that carries, from the database, what is open; bounds; prompts that are too long."""

import pytest

from agents import tool
from agents.adapters.base import ModelError, Reply, Usage
from agents.adapters.blocks import dumps
from agents.loop import SUMMARISE
from agents.models import Message, Task, Turn
from agents.services.conversations import cancel, close, open_conversation, retry, say
from agents.services.waking import wake
from agents.stores.base import StoredItem
from agents.stores.summary import summary_text
from inbox.models import Item
from inbox.services import items
from tests.agents.kit import ask, assert_sound, last_turn, open_turn, run_queued, transcript
from tests.agents.scripts import at, post, texts, use
from tests.factories import ItemFactory, backdate, fresh

LONG = "Tell me about beans. " * 60


def summaries(model):
    """Which of the prompts asked for a summary."""
    return [SUMMARISE in texts(prompt) for prompt in model.prompts]


@pytest.fixture
def short(declare):
    """An agent whose history is long after one exchange, with a tool."""

    @tool
    def look(word: str = "") -> str:
        """Look."""
        return f"Seen {word}."

    return declare(look, limits={"compact_at_tokens": 300})


def test_past_the_limit_the_history_becomes_a_summary(short, conversation, script):
    model = script("Beans are seeds.", "SUMMARY: beans.", "Yes.")
    ask(conversation, LONG)
    assert ask(conversation, "And peas?") == "done"
    assert summaries(model) == [False, True, False]
    assert [message["role"] for message in model.prompts[2]] == ["user"]
    assert model.prompts[2][0]["content"][0]["text"].endswith("SUMMARY: beans.")
    assert model.prompts[2][0]["content"][1]["text"] == "And peas?"
    kinds = [kind for _, kind, _ in transcript(conversation)]
    assert kinds == ["message", "message", "summary", "message", "message"]  # the older ones stay for people to read
    assert fresh(conversation).head == 3
    assert (last_turn(conversation).compactions, last_turn(conversation).model_calls) == (1, 2)
    assert_sound()


def test_a_summary_that_was_cut_says_so(short, conversation, script):
    cut = Reply(dumps([{"type": "text", "text": "Beans, and"}]), "Beans, and", (), "max_tokens", Usage(5, 5), "m")
    model = script("Beans are seeds.", cut, "Yes.")
    ask(conversation, LONG)
    assert ask(conversation, "And peas?") == "done"
    assert "Beans, and\n[The reply was cut here" in model.prompts[2][0]["content"][0]["text"]


@pytest.mark.parametrize("where", ["before the receive", "between calls"])
def test_a_turn_that_is_cancelled_while_it_summarises(short, conversation, script, where):
    """The summary is nowhere, the history is as it was, and the next message is answered, with what was left unread."""
    lost = at("SUMMARY: lost.", lambda: cancel(conversation.pk))
    if where == "before the receive":
        model = script("Beans are seeds.", lost, "SUMMARY: beans.", "Yes.")
        assert ask(conversation, LONG) == "done"
    else:
        model = script(use("look", word="x" * 1300), lost, "Yes.")
    assert ask(conversation, "And peas?") == "fenced"
    assert fresh(conversation).head == 0
    assert last_turn(conversation).compactions == 0
    assert ask(conversation, "And now?") == "done"
    assert [text for sender, kind, text in transcript(conversation) if (sender, kind) == ("user", "message")][-2:] == [
        "And peas?",
        "And now?",
    ]
    assert transcript(conversation)[-1] == ("agent", "message", "Yes.")
    assert "lost" not in str(model.prompts[-1])
    assert_sound()


def test_a_short_history_is_left_alone(declare, conversation, script):
    declare(limits={"compact_at_tokens": 100_000})
    model = script()
    for _ in range(3):
        ask(conversation, LONG)
    assert summaries(model) == [False] * 3


def test_nothing_is_summarised_for_a_turn_without_news(short, conversation, script):
    model = script()
    ask(conversation, LONG)
    item = ItemFactory(mailbox=conversation.mailbox, origin=conversation.pk, resolved=True, rung=False)
    wake(conversation.mailbox_id)
    Item.objects.filter(pk=item.pk).update(status="consumed", consumed_at=item.resolved_at)
    assert run_queued(conversation) == ["done"]
    assert len(model.prompts) == 1


def test_the_summary_carries_what_is_open_from_the_database(short, conversation, script):
    """Promise 5: with ids, whatever the model's words say; nothing that is closed or another's."""
    other = open_conversation(conversation.mailbox_id)
    mine = ItemFactory(
        mailbox=conversation.mailbox, origin=conversation.pk, tag="pay:1", request="Paid?", blocking=True
    )
    nobodys = ItemFactory(mailbox=conversation.mailbox, tag="restock:beans", request="Beans?")
    ItemFactory(mailbox=conversation.mailbox, origin=other.pk, request="Another's?")
    ItemFactory(mailbox=conversation.mailbox, origin=conversation.pk, request="Closed?", consumed=True)
    for position, (content, status) in enumerate([("Ask", "completed"), ("Wait", "in_progress"), ("Tell", "pending")]):
        Task.objects.create(conversation=conversation, position=position, content=content, status=status)
    script("Beans.", "I remember nothing.", "Yes.")
    ask(conversation, LONG)
    ask(conversation, "And now?")
    assert Message.objects.get(kind="summary").text == (
        "[Summary of the conversation so far, made by the system]\nI remember nothing.\n\n"
        f"[Your open inbox requests]\n- item {mine.pk} (pay:1, blocking): Paid?\n- item {nobodys.pk} (restock:beans): Beans?\n\n"
        "[Your open tasks]\n- [in_progress] Wait\n- [pending] Tell"
    )


def test_twenty_long_requests_fit_into_a_summary():
    """Whole they are 1.2 MB, too long for any prompt: the conversation could never go on."""
    requests = [StoredItem(str(n), f"restock:{n}", f"Bags of {n}? " + "x" * 64_000) for n in range(20)]
    words = summary_text("So far.", requests, [])
    assert len(words.encode()) < 70 * 1024
    assert [f"- item {n} (restock:{n}): Bags of {n}? x" in words for n in range(20)] == [True] * 20
    assert words.count("[cut here: ") == 20
    assert "y" * 60_000 in summary_text("So far.", [StoredItem("1", "t", "y" * 60_000)], [])


def test_what_happens_while_the_summary_is_made_is_known_once(short, conversation, script):
    """Case 15: a message arrives, one item is resolved and one posted; all three are in the next prompts, each once."""
    asked = ItemFactory(mailbox=conversation.mailbox, origin=conversation.pk, tag="first", request="First?")

    def meanwhile():
        say(conversation.pk, "I changed my mind.")
        items.resolve(asked.pk, "Yes, first.", by="bob", via="admin")
        wake(conversation.mailbox_id)
        items.post(conversation.mailbox_id, tag="second", request="Second?", origin=conversation.pk)

    model = script(use("look", word="beans"), at("SUMMARY", meanwhile), use("look", word="peas"), "Good.")
    assert ask(conversation, LONG * 2) == "done"
    assert summaries(model) == [False, True, False, False]
    for prompt in model.prompts[2:]:
        told = texts(prompt)
        assert told.count("I changed my mind.") == 1
        assert told.count("Yes, first.") == 1
        assert told.count(": Second?") == 1
        assert f"- item {asked.pk} (" not in told  # it is no longer open
    assert run_queued(conversation) == []
    assert Message.objects.filter(kind="summary").count() == 1
    assert_sound()


def test_an_answer_that_comes_before_the_summary_is_kept_is_not_listed_as_open(short, conversation, script):
    """The list is read in the transaction that writes the summary, not before the model was asked for it."""
    item = ItemFactory(mailbox=conversation.mailbox, origin=conversation.pk, request="Open still?")
    script("Beans.", at("SUMMARY", lambda: items.resolve(item.pk, "No.", by="bob", via="admin")), "Good.")
    ask(conversation, LONG)
    ask(conversation, "And?")
    assert "Open still?" not in Message.objects.get(kind="summary").text
    assert Message.objects.filter(item=item).exists()


def test_calls_and_results_stay_paired(short, conversation, script):
    """The summary is made when all results stand, so no half of a pair is left behind it."""
    model = script([use("look", "a", word="1"), use("look", "b", word="2")], "SUMMARY", "Good.")
    assert ask(conversation, LONG * 2) == "done"
    asked = model.prompts[1]
    assert [block["tool_use_id"] for block in asked[2]["content"] if block["type"] == "tool_result"] == ["a", "b"]
    assert all(block["type"] == "text" for message in model.prompts[2] for block in message["content"])


def test_a_summary_survives_its_worker(short, conversation, script):
    """Its worker dies after it was kept: the next one begins there, and makes no second."""

    class Death(BaseException):
        pass

    def die():
        raise Death

    script("Beans.", "SUMMARY", at("", die))
    ask(conversation, LONG)
    say(conversation.pk, "And?")
    with pytest.raises(Death):
        run_queued(conversation)
    backdate(last_turn(conversation), 1, "lease_until")
    model = script("Good.")
    from agents.services import turns

    assert turns.start(last_turn(conversation).pk) == "done"
    assert summaries(model) == [False]
    assert "SUMMARY" in texts(model.prompts[0])
    assert "And?" in texts(model.prompts[0])
    assert_sound()


def test_pending_items_go_on_through_compaction_and_closing(short, conversation, script):
    """Survives everything: asked, compacted, its conversation closed, answered in another."""
    script(post("pay:1", "Paid?"), "SUMMARY", "I asked.")
    ask(conversation, LONG * 2)
    item = Item.objects.get()
    assert f"- item {item.pk} (pay:1): Paid?" in Message.objects.get(kind="summary").text
    close(conversation.pk)
    other = open_conversation(conversation.mailbox_id)
    items.resolve(item.pk, "It is.", by="bank", via="webhook")
    wake(item.mailbox_id)
    model = script("Thanks.")
    assert run_queued(other) == ["done"]
    assert "Paid?" in texts(model.prompts[0])
    assert "It is." in texts(model.prompts[0])


# --- Too long
def too_long_over(size, reply="Good.", summary="SUMMARY"):
    """A model that takes so many characters."""

    def model(messages):
        if len(texts(messages)) + len(texts(messages, "assistant")) > size:
            return ModelError("too_long")
        return summary if SUMMARISE in texts(messages) else reply

    return model


def test_a_prompt_that_is_too_long_is_summarised_at_once(agent, conversation, script):
    model = script("One.", ModelError("too_long"), "SUMMARY", "Good.")
    ask(conversation, "First.")
    assert ask(conversation, "Second.") == "done"
    assert summaries(model) == [False, False, True, False]
    assert transcript(conversation)[-1] == ("agent", "message", "Good.")
    assert_sound()


def test_a_model_that_finds_everything_too_long_fails_by_name(agent, conversation, script):
    """Case 14: no more than two compactions, no endless loop, and the error is not in the history."""
    script("One.")
    ask(conversation, "First.")
    model = script(rest=ModelError("too_long"))
    assert ask(conversation, "Second.") == "failed"
    assert last_turn(conversation).reason == "too_long"
    assert len(model.prompts) <= 6
    assert [text for *_, text in transcript(conversation)] == ["First.", "One.", "Second."]
    script("Good.")
    assert ask(conversation, "Third.") == "done"


def test_at_most_two_compactions_in_a_turn(short, conversation, script):
    model = script(rest=lambda messages: "S" * 900 if SUMMARISE in texts(messages) else use("look", word="x" * 900))
    assert ask(conversation, LONG * 2) == "failed"
    assert (last_turn(conversation).reason, last_turn(conversation).compactions) == ("too_long", 2)
    assert sum(summaries(model)) == 2
    assert_sound()


def test_a_tool_result_of_megabytes_is_cut_when_it_is_stored(declare, conversation, script):
    """Case 14."""

    @tool
    def dump() -> str:
        """Dump all."""
        return "d" * 3_000_000

    declare(dump)
    model = script(use("dump"), "Long.")
    assert ask(conversation) == "done"
    (result,) = [block["content"] for block in model.prompts[1][-1]["content"]]
    assert len(result.encode()) <= 100 * 1024
    assert "3000000 bytes" in result


@pytest.mark.parametrize("how", ["results", "messages"])
def test_what_grew_too_long_in_one_step_can_be_summarised_all_the_same(declare, conversation, script, how):
    """Not even the summary's prompt fits, and nothing shorter can be received any more: long parts are shown in part, and the
    conversation is usable again."""

    @tool
    def dump() -> str:
        """Dump all."""
        return "d" * 100_000

    declare(dump)
    if how == "results":
        script([use("dump") for _ in range(6)], rest=too_long_over(300_000))
        assert ask(conversation, "Dump six times.") == "done"
    else:
        for n in range(10):
            say(conversation.pk, f"Message {n}: " + "m" * 60_000)
        script(rest=too_long_over(300_000))
        assert set(run_queued(conversation)) == {"done"}
    assert ask(conversation, "Well?") == "done"
    assert transcript(conversation)[-1] == ("agent", "message", "Good.")
    assert_sound()


@pytest.mark.parametrize("reason", ["overloaded", "refusal"])
def test_a_fault_while_summarising_is_the_turns(short, conversation, script, reason):
    script("Beans.", ModelError(reason), "SUMMARY", "Good.")
    ask(conversation, LONG)
    say(conversation.pk, "And?")
    left = run_queued(conversation)
    if reason == "overloaded":
        assert left == ["put_off"]
        backdate(open_turn(conversation), 1, "not_before")
    else:
        assert left == ["failed"]
        retry(conversation.pk)
    assert run_queued(conversation) == ["done"]
    assert Message.objects.filter(kind="summary").count() == 1
    assert Turn.objects.filter(status="done").latest("pk").compactions == 1
