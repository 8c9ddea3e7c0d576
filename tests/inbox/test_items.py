"""The moves of an item, one by one: what each writes, whom it tells, what it refuses."""

import pytest
from django.db import transaction

from inbox.errors import (
    AlreadyClosed,
    BadDeadline,
    BadTag,
    BlankText,
    ItemNotFound,
    TextTooLong,
    TooManyOpenItems,
    UnstorableText,
)
from inbox.models import EarlyAnswer, Item
from inbox.services import items, letters, reading
from inbox.signals import mailbox_ready
from tests.factories import ItemFactory, MailboxFactory, backdate, fresh

pytestmark = pytest.mark.django_db

CLOSED = ["resolved", "consumed", "withdrawn"]


@pytest.fixture
def told(django_capture_on_commit_callbacks):
    """Run something as if committed; which mailboxes were told."""

    def run(act):
        heard = []

        def receiver(sender, mailbox_id, **kwargs):
            heard.append(mailbox_id)

        mailbox_ready.connect(receiver)
        try:
            with django_capture_on_commit_callbacks(execute=True):
                act()
        finally:
            mailbox_ready.disconnect(receiver)
        return heard

    return run


def post(mailbox=None, **given):
    given = {"tag": "restock:beans", "request": "Are the beans in?", **given}
    return items.post((mailbox or MailboxFactory()).pk, **given)


# --- Posting
def test_a_posted_item_is_pending_and_tells_nobody(told):
    mailbox = MailboxFactory()
    assert told(lambda: post(mailbox, blocking=True, origin=7, posted_in=8)) == []
    item = Item.objects.get()
    assert (item.mailbox_id, item.tag, item.request, item.status) == (
        mailbox.pk,
        "restock:beans",
        "Are the beans in?",
        "pending",
    )
    assert (item.blocking, item.asked, item.wakes, item.rung, item.origin, item.posted_in) == (
        True,
        True,
        True,
        False,
        7,
        8,
    )
    assert (item.response, item.outcome, item.resolved_via, item.due_at) == ("", "", "", None)


def test_an_identical_open_request_is_joined():
    mailbox = MailboxFactory()
    first = post(mailbox, origin=1)
    assert post(mailbox, origin=1).pk == first.pk
    others = [post(mailbox, origin=2), post(mailbox, origin=1, request="And now?"), post(origin=1)]
    assert len({first.pk, *(item.pk for item in others)}) == 4
    items.resolve(first.pk, "Yes.", by="x", via="admin")
    assert post(mailbox, origin=1).pk != first.pk  # a closed one is not joined


def test_what_is_said_of_waiting_when_a_request_is_joined_counts():
    mailbox = MailboxFactory()
    first = post(mailbox, origin=1)
    assert (first.blocking, first.due_at) == (False, None)
    joined = post(mailbox, origin=1, blocking=True, due_in_s=60)
    assert (joined.pk, joined.blocking) == (first.pk, True)
    assert joined.due_at is not None
    later = post(mailbox, origin=1, due_in_s=600)  # the first deadline stands, and so does the waiting
    assert (later.due_at, later.blocking) == (joined.due_at, True)


def test_a_mailbox_holds_so_many_open_requests(settings):
    settings.INBOX_MAX_OPEN_ITEMS = 3
    mailbox = MailboxFactory()
    open_ones = [post(mailbox, request=f"{n}?") for n in range(3)]
    with pytest.raises(TooManyOpenItems) as refused:
        post(mailbox, request="One more?")
    assert refused.value.facts == {"open": 3}
    assert post(mailbox, request="0?").pk == open_ones[0].pk  # joining is no new request
    assert post(request="Elsewhere?")
    items.cancel(open_ones[1].pk, "No.", by="x", via="admin")
    assert post(mailbox, request="One more?")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"tag": "has space"}, BadTag),
        ({"tag": ""}, BadTag),
        ({"tag": "x" * 121}, BadTag),
        ({"tag": "restöck"}, BadTag),
        ({"tag": "beans\n"}, BadTag),
        ({"tag": "mesh:x"}, BadTag),
        ({"tag": "Tool:x"}, BadTag),
        ({"tag": None}, BadTag),
        ({"request": " \n"}, BlankText),
        ({"request": "a\x00"}, UnstorableText),
        ({"request": "x" * 65_537}, TextTooLong),
        ({"due_in_s": 0}, BadDeadline),
        ({"due_in_s": -1}, BadDeadline),
        ({"due_in_s": float("nan")}, BadDeadline),
        ({"due_in_s": float("inf")}, BadDeadline),
        ({"due_in_s": 400 * 86400}, BadDeadline),
    ],
)
def test_what_may_not_be_posted(given, error):
    with pytest.raises(error):
        post(**given)
    assert not Item.objects.exists()


def test_the_system_may_use_its_own_tags_and_nobody_posts_to_nowhere():
    assert post(tag="tool:refund", reserved=True).tag == "tool:refund"
    with pytest.raises(ItemNotFound):
        items.post(0, tag="a", request="b")


# --- Dropping
def test_dropped_mail_is_born_resolved(told):
    mailbox = MailboxFactory()
    drop = {"tag": "news", "request": "To you", "response": "It rains.", "by": "ada", "via": "api"}
    assert told(lambda: letters.drop(mailbox.pk, **drop)) == [mailbox.pk]
    item = Item.objects.get()
    assert (item.status, item.outcome, item.asked, item.rung) == ("resolved", "answered", False, False)
    assert (item.response, item.resolved_by, item.resolved_via) == ("It rains.", "ada", "api")


def test_quiet_mail_is_born_rung_and_tells_nobody(told):
    mailbox = MailboxFactory()
    drop = {"tag": "news", "request": "To you", "response": "It rains.", "by": "ada", "via": "api", "wakes": False}
    assert told(lambda: letters.drop(mailbox.pk, **drop)) == []
    assert Item.objects.get().rung


# --- Closing
@pytest.mark.parametrize(("move", "outcome"), [(items.resolve, "answered"), (items.cancel, "cancelled")])
def test_closing_an_item(told, move, outcome):
    item = post()
    assert told(lambda: move(item.pk, "Since noon.", by="ada", via="admin")) == [item.mailbox_id]
    item = fresh(item)
    assert (item.status, item.outcome, item.response) == ("resolved", outcome, "Since noon.")
    assert (item.resolved_by, item.resolved_via, item.rung) == ("ada", "admin", False)
    assert item.created_at <= item.resolved_at


def test_a_request_whose_answerer_is_gone_is_undeliverable(told):
    item = post()
    assert told(lambda: items.undeliverable(item.pk, "The peer is retired.")) == [item.mailbox_id]
    assert (fresh(item).outcome, fresh(item).resolved_via) == ("undeliverable", "system")


def test_the_agent_takes_its_request_back():
    item = post()
    items.withdraw(item.pk, mailbox_id=item.mailbox_id, reason="No more\x00.", consumed_in=5)
    item = fresh(item)
    assert (item.status, item.outcome, item.response, item.consumed_in) == ("consumed", "withdrawn", "No more�.", 5)
    assert item.consumed_at
    assert item.rung


def test_it_takes_back_only_its_own():
    item = post()
    with pytest.raises(ItemNotFound):
        items.withdraw(item.pk, mailbox_id=MailboxFactory().pk)
    assert fresh(item).status == "pending"


@pytest.mark.parametrize("state", CLOSED)
@pytest.mark.parametrize("move", ["resolve", "cancel", "undeliverable", "withdraw"])
def test_a_closed_item_refuses_and_says_why(state, move):
    item = ItemFactory(**{state: True})
    before = Item.objects.filter(pk=item.pk).values().get()
    moves = {
        "resolve": lambda: items.resolve(item.pk, "Late.", by="bob", via="api"),
        "cancel": lambda: items.cancel(item.pk, "Late.", by="bob", via="api"),
        "undeliverable": lambda: items.undeliverable(item.pk, "Late."),
        "withdraw": lambda: items.withdraw(item.pk, mailbox_id=item.mailbox_id),
    }
    with pytest.raises(AlreadyClosed) as refused:
        moves[move]()
    facts = refused.value.facts
    assert (facts["by"], facts["at"], facts["outcome"]) == (
        item.resolved_by,
        fresh(item).resolved_at.isoformat(),
        item.outcome,
    )
    assert facts["text"] == ("" if move == "withdraw" else "Late.")
    assert item.resolved_by in str(refused.value)
    assert Item.objects.filter(pk=item.pk).values().get() == before


def test_an_unknown_item_is_not_found():
    for act in (
        lambda: items.resolve(0, "x", by="x", via="api"),
        lambda: items.cancel(0, "x", by="x", via="api"),
        lambda: items.withdraw(0, mailbox_id=0),
    ):
        with pytest.raises(ItemNotFound):
            act()


def test_an_answer_that_may_not_be_stored_changes_nothing():
    item = post()
    for bad in ("", "\u200b", "a\ud800", "x" * 65_537):
        with pytest.raises((BlankText, UnstorableText, TextTooLong)):
            items.resolve(item.pk, bad, by="x", via="api")
    assert fresh(item).status == "pending"


# --- Answering by tag
def test_a_tag_answers_every_pending_item_with_exactly_it(told):
    mine, other = post(tag="pay:1"), post(tag="pay:1")
    near = [post(tag="pay:10"), post(tag="Pay:1"), post(tag="pay:1:x")]
    closed = ItemFactory(tag="pay:1", resolved=True)
    heard = told(lambda: items.resolve_tag("pay:1", "Paid.", by="bank", via="webhook"))
    assert sorted(heard) == sorted([mine.mailbox_id, other.mailbox_id])
    assert {fresh(item).response for item in (mine, other)} == {"Paid."}
    assert {fresh(item).status for item in near} == {"pending"}
    assert fresh(closed).response == "Since noon."
    assert not EarlyAnswer.objects.exists()


def test_an_early_answer_waits_for_its_request(told):
    assert items.resolve_tag("pay:1", "Paid.", by="bank", via="webhook") == []
    mailbox = MailboxFactory()
    assert told(lambda: post(mailbox, tag="pay:1")) == [mailbox.pk]
    first = Item.objects.get()
    assert (first.status, first.response, first.resolved_by, first.resolved_via) == (
        "resolved",
        "Paid.",
        "bank",
        "webhook",
    )
    early = EarlyAnswer.objects.get()
    assert (early.taken_by, bool(early.taken_at)) == (first, True)
    assert post(tag="pay:1").status == "pending"  # it is taken once


def test_early_answers_are_taken_in_order_and_only_while_fresh():
    for text in ("Old.", "First.", "Second."):
        items.resolve_tag("pay:1", text, by="bank", via="webhook")
    backdate(EarlyAnswer.objects.get(response="Old."), 25 * 3600, "created_at")
    assert [post(tag="pay:1", request=f"{n}?").response for n in range(3)] == ["First.", "Second.", ""]


# --- Deadlines
def test_an_item_past_its_deadline_expires(told):
    due, later, never = post(due_in_s=60), post(due_in_s=60), post()
    backdate(due, 1, "due_at")
    assert told(items.expire_due) == [due.mailbox_id]
    item = fresh(due)
    assert (item.status, item.outcome, item.response, item.resolved_via) == (
        "resolved",
        "expired",
        items.EXPIRED_TEXT,
        "deadline",
    )
    assert {fresh(later).status, fresh(never).status} == {"pending"}
    assert items.expire_due() == 0


def test_a_deadline_is_reckoned_from_now_by_the_database():
    item = post(due_in_s=60)
    assert 59 < (item.due_at - item.created_at).total_seconds() < 61


def test_so_many_expire_at_once():
    for _ in range(3):
        backdate(post(due_in_s=60), 1, "due_at")
    assert [items.expire_due(limit=2) for _ in range(3)] == [2, 1, 0]


# --- Reading
def read(mailbox, reader=1, run=9):
    with transaction.atomic():
        return reading.take(mailbox.pk, reader, run)


def test_a_reader_takes_its_own_mail_and_what_nobody_asked_for():
    mailbox = MailboxFactory()
    mine = ItemFactory(mailbox=mailbox, origin=1, resolved=True)
    ownerless = ItemFactory(mailbox=mailbox, resolved=True)
    left = [
        ItemFactory(mailbox=mailbox, origin=2, resolved=True),
        ItemFactory(mailbox=mailbox, origin=1),
        ItemFactory(resolved=True),
    ]
    mail, more = read(mailbox)
    assert ([letter.id for letter in mail], more) == ([mine.pk, ownerless.pk], False)
    assert [fresh(item).status for item in left] == ["resolved", "pending", "resolved"]
    item = fresh(mine)
    assert (item.status, item.consumed_in, item.rung) == ("consumed", 9, True)
    assert item.consumed_at >= item.resolved_at
    assert read(mailbox) == ([], False)


def test_mail_is_read_in_the_order_of_resolving():
    """Case 21: three requests, the third is answered first."""
    mailbox = MailboxFactory()
    posted = [post(mailbox, request=f"{n}?", origin=1) for n in range(3)]
    for index in (2, 0, 1):
        items.resolve(posted[index].pk, f"Answer to {index}.", by="x", via="admin")
    mail, _ = read(mailbox)
    assert [(letter.request, letter.response) for letter in mail] == [(f"{n}?", f"Answer to {n}.") for n in (2, 0, 1)]


def test_at_most_fifty_letters_at_once():
    mailbox = MailboxFactory()
    ItemFactory.create_batch(51, mailbox=mailbox, resolved=True)
    mail, more = read(mailbox)
    assert (len(mail), more) == (50, True)
    assert [(len(letters), more) for letters, more in [read(mailbox)]] == [(1, False)]


def test_at_most_a_hundred_kilobytes_at_once():
    """In bytes of both texts; a letter that is longer by itself is read all the same."""
    mailbox = MailboxFactory()
    long = ItemFactory(mailbox=mailbox, resolved=True, request="r" * 60_000, response="s" * 60_000)
    ItemFactory(mailbox=mailbox, resolved=True, request="ü" * 25_000, response="x")
    ItemFactory(mailbox=mailbox, resolved=True, request="ü" * 25_000, response="x")
    mail, more = read(mailbox)
    assert ([letter.id for letter in mail], more) == ([long.pk], True)
    mail, more = read(mailbox)
    assert (len(mail), more) == (1, True)
    assert len(read(mailbox)[0]) == 1


def test_open_requests_of_a_reader():
    mailbox = MailboxFactory()
    blocking = ItemFactory(mailbox=mailbox, origin=1, blocking=True)
    plain = ItemFactory(mailbox=mailbox)
    ItemFactory(mailbox=mailbox, origin=2, blocking=True)
    ItemFactory(mailbox=mailbox, origin=1, blocking=True, resolved=True)
    ItemFactory(blocking=True)
    assert [request.id for request in reading.open_requests(mailbox.pk, 1)] == [blocking.pk, plain.pk]
    assert [request.id for request in reading.open_requests(mailbox.pk, 1, blocking_only=True)] == [blocking.pk]


# --- Whose it is
def test_looking_changes_nothing():
    """Case 23, below the faces: every way to read leaves every row as it was."""
    mailbox = MailboxFactory()
    for state in ({}, {"resolved": True}, {"consumed": True}, {"withdrawn": True}):
        ItemFactory(mailbox=mailbox, due_at=None, **state)
    before = list(Item.objects.order_by("pk").values())
    for _ in range(3):
        reading.open_requests(mailbox.pk, 1)
        list(Item.objects.filter(mailbox=mailbox))
        assert [item.summary for item in Item.objects.all()]
    assert list(Item.objects.order_by("pk").values()) == before
