"""The built-in tools, called as the model calls them: their names, inputs and words, and what they may touch."""

import pytest

from agents.builtin import INBOX_TOOLS, TASK_TOOLS
from agents.models import Task, ToolCall
from inbox.models import Item
from inbox.services import items
from tests.agents.kit import ask, assert_sound, calls
from tests.agents.scripts import post, results, use
from tests.factories import ItemFactory, fresh

NAMES = ["glove_post_to_inbox", "glove_update_inbox", "glove_update_tasks"]


def test_their_names_and_inputs_are_the_contracts():
    inputs = {tool.name: tool.spec.input_schema for tool in (*INBOX_TOOLS, *TASK_TOOLS)}
    assert list(inputs) == NAMES
    properties = {name: list(schema["properties"]) for name, schema in inputs.items()}
    assert properties == {
        "glove_post_to_inbox": ["tag", "request", "blocking", "due_in_s"],
        "glove_update_inbox": ["id", "action", "reason"],
        "glove_update_tasks": ["todos"],
    }
    required = {name: schema["required"] for name, schema in inputs.items()}
    assert required == {
        "glove_post_to_inbox": ["tag", "request"],
        "glove_update_inbox": ["id", "action"],
        "glove_update_tasks": ["todos"],
    }
    todo = inputs["glove_update_tasks"]["$defs"]["Todo"]
    assert todo["required"] == ["content", "activeForm", "status"]
    assert todo["properties"]["status"]["enum"] == ["pending", "in_progress", "completed"]


def test_the_model_is_told_what_each_input_means():
    for tool in INBOX_TOOLS:
        for name, field in tool.spec.input_schema["properties"].items():
            assert len(field["description"]) > 10, (tool.name, name)
    assert all(tool.atomic for tool in (*INBOX_TOOLS, *TASK_TOOLS))


def test_posting(conversation, script):
    model = script(post("approval:refund", "May I?", blocking=True, due_in_s=60), "I asked.")
    assert ask(conversation) == "done"
    item = Item.objects.get()
    assert (item.tag, item.request, item.blocking, item.status) == ("approval:refund", "May I?", True, "pending")
    assert (item.origin, item.mailbox_id) == (conversation.pk, conversation.mailbox_id)
    assert item.posted_in == ToolCall.objects.get().turn_id
    assert item.due_at
    (told,) = results(model.prompts[1])
    assert told["content"].startswith(f"Posted as item {item.pk}, pending.")
    assert_sound()


def test_posting_what_is_answered_already(conversation, script):
    items.resolve_tag("pay:1", "Paid.", by="bank", via="webhook")
    model = script(post("pay:1", "Paid?"), "Waiting.")
    ask(conversation)
    assert "Its answer was there already" in results(model.prompts[1])[0]["content"]


def test_posting_the_same_twice_is_one_request(conversation, script):
    script([post(), post()], "I asked.")
    ask(conversation)
    assert Item.objects.count() == 1
    first, second = (result for *_, result in calls(conversation))
    assert first == second


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tag": "has space"}, "A tag is 1 to 120"),
        ({"tag": "mesh:x"}, "the system's own"),
        ({"request": " "}, "request is blank"),
        ({"due_in_s": 0.5}, "between 1 and a year"),
        ({"due_in_s": "soon"}, "due_in_s: "),
        ({"urgent": True}, "urgent: Extra inputs"),
    ],
)
def test_a_request_that_cannot_be_posted_is_a_result_that_says_why(conversation, script, given, words):
    model = script(post(**given), "Oh.")
    assert ask(conversation) == "done"
    (told,) = results(model.prompts[1])
    assert told["is_error"]
    assert words in told["content"]
    assert not Item.objects.exists()


def test_too_many_requests(conversation, script, settings):
    settings.INBOX_MAX_OPEN_ITEMS = 2
    script([post(request=f"{n}?") for n in range(3)], "I asked.")
    ask(conversation)
    assert [status for _, status, _ in calls(conversation)] == ["done", "done", "failed"]
    assert "as many open requests as it may" in calls(conversation)[2][2]


@pytest.mark.parametrize("spelled", ["{}", " {} ", "#{}"])
def test_withdrawing(conversation, script, spelled):
    item = ItemFactory(mailbox=conversation.mailbox, origin=conversation.pk)
    given = spelled.format(item.pk)
    script(use("glove_update_inbox", id=given, action="withdraw", reason="No more."), "Done.")
    ask(conversation)
    assert (fresh(item).status, fresh(item).outcome, fresh(item).response) == ("consumed", "withdrawn", "No more.")
    assert calls(conversation) == [("glove_update_inbox", "done", f"Item {item.pk} is withdrawn.")]
    assert_sound()


@pytest.mark.parametrize("which", ["another's", "answered", "read", "none", "nonsense", "huge"])
def test_what_cannot_be_withdrawn(conversation, script, which):
    made = {
        "another's": lambda: ItemFactory().pk,
        "answered": lambda: ItemFactory(mailbox=conversation.mailbox, origin=5, resolved=True).pk,
        "read": lambda: ItemFactory(mailbox=conversation.mailbox, consumed=True).pk,
        "none": lambda: 999_999,
        "nonsense": lambda: "the first",
        "huge": lambda: 10**30,
    }
    script(use("glove_update_inbox", id=str(made[which]()), action="withdraw"), "Oh.")
    before = list(Item.objects.values())
    assert ask(conversation) == "done"
    ((_, status, result),) = calls(conversation)
    assert status == "failed"
    assert result.startswith("Already answered" if which in ("answered", "read") else "There is no such item")
    assert list(Item.objects.values()) == before


def todo(content, status="pending"):
    return {"content": content, "activeForm": f"{content}ing", "status": status}


def test_the_task_list_is_replaced_as_a_whole(conversation, script):
    script(
        use("glove_update_tasks", todos=[todo("Ask"), todo("Tell")]),
        use("glove_update_tasks", todos=[todo("Ask", "completed"), todo("Wait", "in_progress")]),
        "Planned.",
    )
    ask(conversation)
    rows = list(Task.objects.order_by("position").values_list("content", "active_form", "status"))
    assert rows == [("Ask", "Asking", "completed"), ("Wait", "Waiting", "in_progress")]
    assert [result for *_, result in calls(conversation)] == ["The list has 2 tasks."] * 2


@pytest.mark.parametrize(
    "todos",
    [
        [todo("x", "later")],
        [todo(" ")],
        [todo(f"{n}") for n in range(101)],
        [{"content": "x", "status": "pending"}],
        [{**todo("x"), "owner": "me"}],
        "x",
    ],
)
def test_a_wrong_list_changes_nothing(conversation, script, todos):
    script(use("glove_update_tasks", todos=[todo("Ask")]), use("glove_update_tasks", todos=todos), "Oh.")
    assert ask(conversation) == "done"
    assert [status for _, status, _ in calls(conversation)] == ["done", "failed"]
    assert list(Task.objects.values_list("content", flat=True)) == ["Ask"]


def test_lists_of_two_conversations_are_apart(conversation, script):
    from agents.services.conversations import open_conversation

    other = open_conversation(conversation.mailbox_id)
    for one, content in ((conversation, "Ask"), (other, "Tell")):
        script(use("glove_update_tasks", todos=[todo(content)]), "Planned.")
        ask(one)
    assert set(Task.objects.values_list("conversation_id", "content")) == {(conversation.pk, "Ask"), (other.pk, "Tell")}
