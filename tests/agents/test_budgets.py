"""What things cost in queries and transactions. The figures are bounds of the design; a query more than a bound fails here."""

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from agents import tool
from agents.models import Message
from agents.services import turns
from agents.services.conversations import open_conversation, say
from agents.services.waking import wake
from inbox.models import Item
from inbox.services import items, reading
from tests.agents.kit import ask, open_turn, run_queued
from tests.agents.scripts import post, use
from tests.factories import ConversationFactory, ItemFactory, MailboxFactory, backdate

pytestmark = pytest.mark.django_db(transaction=True)

CONTROL = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "SET ", "PRAGMA", "SELECT SET_CONFIG")


class Cost:
    """The statements of a block, and how many transactions they stand in."""

    def __init__(self):
        self.queries = []
        self.transactions = 0

    def __enter__(self):
        self._capture = CaptureQueriesContext(connection)
        self._capture.__enter__()
        return self

    def __exit__(self, *error):
        self._capture.__exit__(*error)
        said = [query["sql"].lstrip().upper() for query in self._capture.captured_queries]
        self.queries = [sql for sql in said if not sql.startswith(CONTROL)]
        inside = False
        for sql in said:
            if sql.startswith("BEGIN"):
                self.transactions, inside = self.transactions + 1, True
            elif sql.startswith(("COMMIT", "ROLLBACK")) and not sql.startswith("ROLLBACK TO"):
                inside = False
            elif not inside and not sql.startswith(CONTROL) and not sql.startswith("SELECT"):
                self.transactions += 1  # a statement that writes by itself

    @property
    def count(self):
        return len(self.queries)


def answered(conversation, number, **given):
    given = {"mailbox": conversation.mailbox, "origin": conversation.pk, **given}
    return ItemFactory.create_batch(number, resolved=True, **given)


def turn_cost(conversation):
    """Of the queued turn, from its start to its end."""
    turn = open_turn(conversation)
    with Cost() as cost:
        assert turns.start(turn.pk) == "done"
    return cost


@pytest.fixture(autouse=True)
def nobody_reads(monkeypatch):
    """A wake has a cost of its own, measured by itself."""
    monkeypatch.setattr("agents.services.waking.wake", lambda mailbox_id: 0)


# --- Items
def test_posting_resolving_and_reading_are_a_transaction_each():
    mailbox = MailboxFactory()
    with Cost() as posting:
        item = items.post(mailbox.pk, tag="a", request="b?", origin=1)
    with Cost() as resolving:
        items.resolve(item.pk, "Yes.", by="bob", via="admin")
    with Cost() as reading_it, transaction.atomic():
        reading.take(mailbox.pk, 1, 1)
    costs = (posting, resolving, reading_it)
    assert [cost.transactions for cost in costs] == [1, 1, 1]
    assert [cost.count <= most for cost, most in zip(costs, (8, 2, 2), strict=True)] == [True] * 3


def test_reading_many_costs_what_reading_one_does():
    mailbox = MailboxFactory()
    costs = []
    for number in (1, 49):
        ItemFactory.create_batch(number, mailbox=mailbox, resolved=True)
        with Cost() as cost, transaction.atomic():
            reading.take(mailbox.pk, 1, 1)
        costs.append(cost.count)
    assert costs[0] == costs[1] == 2


def test_expiring_many_costs_what_expiring_one_does():
    costs = []
    for number in (1, 30):
        for _ in range(number):
            backdate(ItemFactory(), 1, "due_at")
        with Cost() as cost:
            assert items.expire_due() == number
        costs.append(cost.count)
    assert costs[0] == costs[1]
    assert cost.transactions == 1


# --- Turns
def test_a_plain_turn_is_three_transactions_and_at_most_twelve_queries(conversation, script):
    """Claim, receive, finish."""
    script("Hi.")
    say(conversation.pk, "Hello.")
    cost = turn_cost(conversation)
    assert cost.transactions == 3, "\n".join(cost.queries)
    assert cost.count <= 12, "\n".join(cost.queries)


def test_a_turn_that_reads_49_items_costs_what_one_that_reads_one_does(conversation, script):
    script(rest="Read.")
    ask(conversation)  # whatever is looked up once in a process
    costs = []
    for number in (1, 49):
        answered(conversation, number)
        say(conversation.pk, "What news?")
        costs.append(turn_cost(conversation))
    assert costs[0].count == costs[1].count
    assert costs[1].transactions == 3
    assert costs[1].count <= 14


def test_a_turn_that_finds_nothing_new_is_cheap(conversation, script):
    script(rest="Hi.")
    ask(conversation)
    answered(conversation, 1, rung=False)
    wake(conversation.mailbox_id)
    Item.objects.update(status="consumed", consumed_at=Item.objects.get().resolved_at)
    cost = turn_cost(conversation)
    assert (cost.transactions, cost.count <= 8) == (3, True)


def test_what_lies_around_costs_nothing(conversation, script):
    """The history before the last summary, consumed items, items of other mailboxes, other conversations of this one."""
    script(rest="Hi.")
    ask(conversation)
    say(conversation.pk, "First.")
    before = turn_cost(conversation).count
    places = range(100, 400)
    Message.objects.bulk_create(
        Message(conversation=conversation, place=place, sender=("user", "agent")[place % 2], text="Old.")
        for place in places
    )
    Message.objects.create(conversation=conversation, place=400, sender="user", kind="summary", text="SUMMARY")
    type(conversation).objects.filter(pk=conversation.pk).update(head=400)
    Item.objects.bulk_create(
        ItemFactory.build(mailbox=conversation.mailbox, origin=conversation.pk, consumed=True) for _ in range(200)
    )
    other = ConversationFactory()
    Item.objects.bulk_create(ItemFactory.build(mailbox=other.mailbox, resolved=True) for _ in range(200))
    ConversationFactory.create_batch(5, mailbox=conversation.mailbox, closed=True)
    say(conversation.pk, "Second.")
    assert turn_cost(conversation).count == before


@pytest.mark.postgres
def test_the_scans_of_a_turn_use_indexes(conversation, script):
    """With many rows around, no statement of a turn reads a whole table."""
    script(rest="Hi.")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO inbox_item (mailbox_id, tag, request, response, status, outcome, blocking, asked, wakes, rung,"
            " created_at, resolved_at, resolved_by, resolved_via, consumed_at) SELECT %s, 'a', 'b?', 'Yes.', 'consumed',"
            " 'answered', false, true, true, true, now(), now(), 'x', 'api', now() FROM generate_series(1, 20000)",
            [conversation.mailbox_id],
        )
        cursor.execute(
            "INSERT INTO agents_message (conversation_id, place, sender, kind, text, blocks, nonce, created_at)"
            " SELECT %s, n, 'user', 'message', 'Old.', '', '', now() FROM generate_series(1, 20000) n",
            [conversation.pk],
        )
        # Others talk too: where one conversation is the whole table, reading all of it is the planner's to choose.
        cursor.execute(
            "INSERT INTO agents_message (conversation_id, place, sender, kind, text, blocks, nonce, created_at)"
            " SELECT %s, n, 'user', 'message', 'Old.', '', '', now() FROM generate_series(1, 80000) n",
            [ConversationFactory().pk],
        )
        cursor.execute(
            "INSERT INTO agents_turn (conversation_id, status, reason, error, attempts, not_before, heard, model_calls,"
            " compactions, backoffs, input_tokens, output_tokens, created_at, finished_at) SELECT %s, 'done', '', '', 0, now(), 0,"
            " 0, 0, 0, 0, 0, now(), now() FROM generate_series(1, 20000)",
            [conversation.pk],
        )
        cursor.execute("UPDATE agents_conversation SET head = 20000")
        cursor.execute("UPDATE agents_message SET kind = 'summary' WHERE place = 20000")
        cursor.execute("ANALYZE inbox_item, agents_message, agents_turn, agents_conversation")
    say(conversation.pk, "Hello.")
    turn = open_turn(conversation)
    plans = []
    with connection.execute_wrapper(lambda execute, *given: _explained(execute, plans, *given)):
        assert turns.start(turn.pk) == "done"
        turns.due_turns()
    large = ("inbox_item", "agents_message", "agents_turn")
    scans = [
        line for line in "\n".join(plans).splitlines() if "Seq Scan on" in line and any(name in line for name in large)
    ]
    assert not scans, scans
    assert len(plans) > 5


def _explained(execute, plans, sql, params, many, context):
    """The plan of each statement on rows, before it runs."""
    if sql.lstrip().startswith(("SELECT", "UPDATE")) and not many:
        with context["connection"].connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {sql}", params)
            plans.append(f"{sql}\n" + "\n".join(line for (line,) in cursor.fetchall()))
    return execute(sql, params, many, context)


def test_a_step_with_tools_grows_by_its_calls_only(conversation, declare, script):
    """Each call costs the same, however many stand before it."""

    @tool
    def look() -> str:
        """Look."""
        return "Seen."

    declare(look)
    script(use("look"), "Good.")
    ask(conversation)  # from here on, each turn reads calls of the history
    counts = []
    for number in (1, 2, 6):
        script([use("look") for _ in range(number)], "Good.")
        say(conversation.pk, "Look.")
        counts.append(turn_cost(conversation).count)
    each = counts[1] - counts[0]
    assert counts[2] - counts[1] == 4 * each
    assert each <= 4


def test_posting_by_a_tool_is_one_transaction(conversation, script):
    script(post(), "Asked.")
    say(conversation.pk, "Ask.")
    assert turn_cost(conversation).transactions == 6  # claim, receive, reply, post, receive, finish


def test_waking_costs_the_same_for_one_and_for_many(conversation, script):
    costs = []
    for number in (1, 20):
        answered(conversation, number, rung=False)
        with Cost() as cost:
            assert wake(conversation.mailbox_id) == number
        costs.append(cost.count)
        run_queued(conversation)
    assert costs[0] == costs[1] <= 6


def test_saying_something_is_one_transaction(conversation):
    with Cost() as cost:
        say(conversation.pk, "Hello.")
    assert (cost.transactions, cost.count <= 4) == (1, True)


def test_opening_costs_the_same_however_many_there_are(agent):
    mailbox = MailboxFactory()
    costs = []
    for _ in range(2):
        with Cost() as cost:
            open_conversation(mailbox.pk)
        costs.append(cost.count)
        ConversationFactory.create_batch(20, mailbox=mailbox)
    assert costs[0] == costs[1]
