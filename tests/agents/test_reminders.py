"""Blocking is soft: the agent is reminded on every model call that it said it would wait, and is never stopped."""

import pytest

from agents.models import Message
from agents.prompt import reminder
from agents.services.conversations import close, open_conversation
from inbox.models import Item
from inbox.services import items
from tests.agents.kit import ask, run_queued, transcript
from tests.agents.scripts import post, texts
from tests.factories import ItemFactory, fresh

SIGN = "Reminder: you said that you would wait"


def reminders(prompt):
    return texts(prompt).count(SIGN)


def test_an_unrelated_question_is_answered_while_a_request_blocks(conversation, script):
    """Case 26: the item stays pending, and the reminder stands once."""
    model = script(post("approval:refund", "May I refund 17?", blocking=True), "I asked.", "4.")
    ask(conversation, "Refund me.")
    assert ask(conversation, "What is 2+2?") == "done"
    assert transcript(conversation)[-1] == ("agent", "message", "4.")
    assert Item.objects.get().status == "pending"
    assert [reminders(prompt) for prompt in model.prompts] == [0, 1, 1]
    last = model.prompts[-1][-1]["content"]
    assert last[0]["text"] == "What is 2+2?"
    line = f"- item {Item.objects.get().pk}, approval:refund: May I refund 17?"
    assert last[-1]["text"] == f"{SIGN} for these requests. They are still open:\n{line}"


def test_a_reminder_is_never_stored(conversation, script):
    script()
    ItemFactory(mailbox=conversation.mailbox, origin=conversation.pk, blocking=True)
    for _ in range(3):
        ask(conversation)
    assert not Message.objects.filter(text__contains=SIGN).exists()
    assert not Message.objects.filter(blocks__contains=SIGN).exists()


def test_it_stands_once_in_each_prompt_of_a_turn(conversation, script):
    """After the tool results of a later step too, whatever the number of open requests."""
    model = script([post(f"ask:{n}", f"Number {n}?", blocking=True) for n in range(3)], post("more:1"), "Waiting.")
    assert ask(conversation) == "done"
    assert [reminders(prompt) for prompt in model.prompts] == [0, 1, 1]
    for prompt in model.prompts[1:]:
        assert [f"Number {n}?" in texts(prompt).split(SIGN)[1] for n in range(3)] == [True] * 3
        assert prompt[-1]["content"][-1]["text"].startswith(SIGN)


@pytest.mark.parametrize("end", ["resolved", "cancelled", "withdrawn", "expired"])
def test_an_answer_ends_it(conversation, script, end):
    model = script()
    item = ItemFactory(mailbox=conversation.mailbox, origin=conversation.pk, blocking=True)
    ask(conversation)
    match end:
        case "resolved":
            items.resolve(item.pk, "Yes.", by="bob", via="admin")
        case "cancelled":
            items.cancel(item.pk, "Never mind.", by="bob", via="admin")
        case "withdrawn":
            items.withdraw(item.pk, mailbox_id=item.mailbox_id)
        case "expired":
            Item.objects.filter(pk=item.pk).update(due_at=item.created_at)
            items.expire_due()
    ask(conversation)
    assert [reminders(prompt) for prompt in model.prompts] == [1, 0]


def test_of_what_one_is_reminded(conversation, script):
    """One's own blocking requests and nobody's, not those of another open conversation, not what does not block."""
    model = script()
    other = open_conversation(conversation.mailbox_id)
    for request, given in (
        ("Mine?", {"origin": conversation.pk, "blocking": True}),
        ("Nobody's?", {"blocking": True}),
        ("Another's?", {"origin": other.pk, "blocking": True}),
        ("By the way?", {"origin": conversation.pk}),
    ):
        ItemFactory(mailbox=conversation.mailbox, request=request, **given)
    ItemFactory(request="Elsewhere?", blocking=True)
    ask(conversation)
    told = texts(model.prompts[-1]).split(SIGN)[1]
    said = ["Mine?" in told, "Nobody's?" in told, "Another's?" in told, "By the way?" in told, "Elsewhere?" in told]
    assert said == [True, True, False, False, False]
    close(other.pk)
    ask(conversation)
    assert "Another's?" in texts(model.prompts[-1]).split(SIGN)[1]  # its asker is closed: the mailbox waits for it


def test_a_wake_needs_no_reminder_of_what_it_brings(conversation, script):
    model = script(post("a", "Yes or no?", blocking=True), "I asked.", "Good.")
    ask(conversation)
    item = Item.objects.get()
    items.resolve(item.pk, "Yes.", by="bob", via="admin")
    from agents.services.waking import wake

    wake(item.mailbox_id)
    assert run_queued(conversation) == ["done"]
    assert reminders(model.prompts[-1]) == 0
    assert fresh(item).status == "consumed"


def test_only_the_first_line_of_a_request_is_repeated():
    line = reminder([Item(id=3, tag="a", request="\n  First line.  \nSecond line.")]).splitlines()[1]
    assert line == "- item 3, a: First line."
    assert len(reminder([Item(id=3, tag="a", request="x" * 5000)])) < 250
