"""The database refuses an illegal item, whoever writes: shapes on both databases, moves and frozen answers on Postgres."""

import itertools

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from inbox.models import Item
from tests.factories import ItemFactory, MailboxFactory, UserFactory, fresh

pytestmark = pytest.mark.django_db

STATES = {
    "pending": {},
    "resolved": {"resolved": True},
    "consumed": {"consumed": True},
    "withdrawn": {"withdrawn": True},
}
MOVES = {("pending", "resolved"), ("resolved", "consumed"), ("pending", "withdrawn")}


def raw(item, **columns):
    """An UPDATE by hand, as from a console."""
    sets = ", ".join(f"{name} = %s" for name in columns)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"UPDATE inbox_item SET {sets} WHERE id = %s", [*columns.values(), item.pk])


def columns_of(state):
    """A whole, well-formed row of this state."""
    made = ItemFactory.build(mailbox=None, **STATES[state])
    names = ("status", "outcome", "response", "resolved_at", "resolved_by", "resolved_via", "consumed_at")
    return {name: getattr(made, name) for name in names}


@pytest.mark.postgres
@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(STATES, 2)))
def test_only_the_moves_of_the_design_happen(before, after):
    """Every pair of states, by raw SQL with a row that is well-formed in itself."""
    item = ItemFactory(**STATES[before])
    columns = columns_of(after)
    if (before, after) == ("resolved", "consumed"):  # with the answer that was given
        columns = {name: columns[name] for name in ("status", "consumed_at")}
    if (before, after) in MOVES:
        raw(item, **columns)
        assert fresh(item).status == columns["status"]
    else:
        with pytest.raises(IntegrityError):
            raw(item, **columns)
        assert fresh(item).status == item.status


@pytest.mark.postgres
@pytest.mark.parametrize("state", ["resolved", "consumed", "withdrawn"])
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("response", "Another."),
        ("outcome", "cancelled"),
        ("resolved_by", "somebody else"),
        ("resolved_via", "api"),
        ("resolved_at", timezone.now()),
    ],
)
def test_a_given_answer_is_frozen(state, column, value):
    item = ItemFactory(**STATES[state])
    with pytest.raises(IntegrityError):
        raw(item, **{column: value})


@pytest.mark.postgres
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    ("column", "value"), [("tag", "other"), ("request", "Other?"), ("asked", False), ("mailbox_id", None)]
)
def test_a_request_is_frozen(state, column, value):
    item = ItemFactory(**STATES[state])
    with pytest.raises(IntegrityError):
        raw(item, **{column: MailboxFactory().pk if column == "mailbox_id" else value})


@pytest.mark.postgres
@pytest.mark.parametrize(("column", "value"), [("consumed_at", timezone.now()), ("consumed_in", 77)])
def test_what_was_read_stays_read(column, value):
    with pytest.raises(IntegrityError):
        raw(ItemFactory(consumed=True), **{column: value})


@pytest.mark.postgres
def test_a_stale_save_cannot_move_it_back():
    """Case 20, below the admin: a form that was open while the item was consumed."""
    item = ItemFactory(resolved=True)
    stale = Item.objects.get(pk=item.pk)
    Item.objects.filter(pk=item.pk).update(status="consumed", consumed_at=timezone.now())
    with pytest.raises(IntegrityError), transaction.atomic():
        stale.save()
    with pytest.raises(IntegrityError), transaction.atomic():
        Item.objects.bulk_update([Item(pk=item.pk, status="pending")], ["status"])
    assert fresh(item).status == "consumed"


@pytest.mark.parametrize("state", STATES)
def test_what_may_change_may(state):
    """The wake's flag, whose it is, and the resolver's account when it is deleted."""
    user = UserFactory()
    item = ItemFactory(resolver=user, origin=3, **STATES[state])
    raw(item, rung=True, origin=None)
    user.delete()
    assert (fresh(item).rung, fresh(item).origin, fresh(item).resolver_id) == (True, None, None)


def shapes():
    """Every combination of the columns that make the state, with whether it is a state."""
    at = timezone.now()
    for status, outcome, answered, via, resolved, consumed in itertools.product(
        ("pending", "resolved", "consumed", "lost"),
        ("", "answered", "expired", "cancelled", "undeliverable", "withdrawn", "maybe"),
        ("", "Yes."),
        ("", "api"),
        (None, at),
        (None, at),
    ):
        closed = outcome in ("answered", "expired", "cancelled", "undeliverable")
        legal = {
            "pending": not (outcome or answered or via or resolved or consumed),
            "resolved": bool(closed and via and resolved and not consumed),
            "consumed": bool((closed or outcome == "withdrawn") and resolved and consumed),
        }
        row = {
            "status": status,
            "outcome": outcome,
            "response": answered,
            "resolved_via": via,
            "resolved_at": resolved,
            "consumed_at": consumed,
        }
        yield row, legal.get(status, False)


def test_every_other_shape_is_refused_at_birth():
    """The full product of the columns that make a state, on both databases."""
    mailbox = MailboxFactory()
    wrong = []
    for row, legal in shapes():
        try:
            with transaction.atomic():
                Item.objects.create(mailbox=mailbox, tag="a", request="b", **row)
            stored = True
        except IntegrityError:
            stored = False
        if stored != legal:
            wrong.append((row, legal))
    assert not wrong


def test_quiet_mail_cannot_be_unrung():
    with pytest.raises(IntegrityError):
        raw(ItemFactory(resolved=True, wakes=False), rung=False)
