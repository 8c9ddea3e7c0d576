"""Who may see and answer what. What one may not see is invisible; lists and single looks agree, whatever the tag."""

import itertools

import pytest
from django.contrib.auth.models import AnonymousUser

from inbox import access
from inbox.models import Item, Mailbox
from tests.factories import ItemFactory, MailboxFactory, TagGroupFactory, UserFactory

pytestmark = pytest.mark.django_db

SEE, ANSWER = "inbox.view_item", "inbox.resolve_item"


@pytest.fixture
def ada():
    return UserFactory()


def item_of(owner=None, tag="restock:beans", **columns):
    return ItemFactory(mailbox=MailboxFactory(owner=owner), tag=tag, **columns)


def rights(user, item):
    """(sees, answers), after checking that every way to ask says the same."""
    sees, answers = access.may_see(user, item), access.may_resolve(user, item)
    assert access.visible_items(user).filter(pk=item.pk).exists() == sees
    assert access.answerable_items(user).filter(pk=item.pk).exists() == answers
    return sees, answers


@pytest.mark.parametrize(
    ("may", "expected"),
    [([], (False, False)), ([SEE], (True, False)), ([ANSWER], (True, True)), ([SEE, ANSWER], (True, True))],
)
def test_permissions_decide_about_the_items_of_others(may, expected):
    assert rights(UserFactory(may=may), item_of()) == expected


def test_owning_shows_and_does_not_answer(ada):
    """A customer must not approve her own refund."""
    mine = item_of(ada)
    assert rights(ada, mine) == (True, False)
    assert rights(UserFactory(), mine) == (False, False)


def test_an_owner_answers_what_is_declared_so(ada, settings):
    settings.INBOX_OWNER_TAGS = ["ask:*", "exact"]
    assert rights(ada, item_of(ada, "ask:size")) == (True, True)
    assert rights(ada, item_of(ada, "exact")) == (True, True)
    for tag in ("ask", "Ask:size", "exactly", "refund:ask:1"):
        assert rights(ada, item_of(ada, tag)) == (True, False), tag
    assert rights(ada, item_of(UserFactory(), "ask:size")) == (False, False)


def test_an_owner_tag_counts_within_a_group_too(ada, settings):
    settings.INBOX_OWNER_TAGS = ["ask:*"]
    TagGroupFactory(pattern="ask:*", of=["finance"])
    assert rights(ada, item_of(ada, "ask:size")) == (True, True)
    clerk = UserFactory(may=[ANSWER])
    assert rights(clerk, item_of(ada, "ask:size")) == (False, False)


def test_a_group_guards_its_tags():
    TagGroupFactory(pattern="approval:*", of=["finance"])
    inside, outside = UserFactory(may=[ANSWER], groups=["finance"]), UserFactory(may=[SEE, ANSWER], groups=["sales"])
    guarded, free = item_of(tag="approval:refund"), item_of(tag="restock:beans")
    assert rights(inside, guarded) == (True, True)
    assert rights(outside, guarded) == (False, False)
    assert rights(inside, free) == rights(outside, free) == (True, True)


def test_membership_without_the_permission_is_nothing():
    TagGroupFactory(pattern="approval:*", of=["finance"])
    assert rights(UserFactory(groups=["finance"]), item_of(tag="approval:refund")) == (False, False)


def test_any_of_several_groups_will_do():
    TagGroupFactory(pattern="approval:*", of=["finance", "legal"])
    TagGroupFactory(pattern="*:refund", of=["care"])
    item = item_of(tag="approval:refund")
    for group in ("finance", "legal", "care"):
        assert rights(UserFactory(may=[ANSWER], groups=[group]), item) == (True, True), group
    assert rights(UserFactory(may=[ANSWER], groups=["sales"]), item) == (False, False)


def test_a_pattern_without_a_group_is_nobodys():
    """Half-made, it hides rather than shows."""
    TagGroupFactory(pattern="approval:*")
    assert rights(UserFactory(may=[ANSWER], groups=["finance"]), item_of(tag="approval:x")) == (False, False)


def test_a_superuser_is_in_every_group_and_an_inactive_user_in_none(ada):
    TagGroupFactory(pattern="*", of=["finance"])
    item = item_of(ada, "approval:refund")
    assert rights(UserFactory(is_superuser=True), item) == (True, True)
    for user in (UserFactory(is_superuser=True, is_active=False), AnonymousUser()):
        assert rights(user, item) == (False, False)
    ada.is_active = False
    assert rights(ada, item) == (False, False)
    assert not access.visible_mailboxes(ada).exists()


PATTERNS = ["approval:*", "approval:refund", "*:refund", "a*l:*", "a.p:*", "*", "x_y*", "Approval:*"]
TAGS = [
    "approval:refund",
    "Approval:refund",
    "approval:",
    "approval",
    "a.p:1",
    "aXp:1",
    "x_y",
    "xzy",
    "APPROVAL:REFUND",
]


@pytest.mark.parametrize(("mine", "theirs"), list(itertools.product([None, *PATTERNS], [*PATTERNS[:3], PATTERNS[-1]])))
def test_lists_and_looks_agree_on_every_tag(mine, theirs):
    """`rights` compares them: the case of letters counts on both databases, and `.` and `_` are themselves."""
    if mine:
        TagGroupFactory(pattern=mine, of=["mine"])
    if theirs != mine:
        TagGroupFactory(pattern=theirs, of=["theirs"])
    user = UserFactory(may=[ANSWER], groups=["mine"])
    for tag in TAGS:
        rights(user, item_of(tag=tag))


def test_what_one_may_not_see_is_not_counted_either(ada):
    TagGroupFactory(pattern="approval:*", of=["finance"])
    item_of(tag="approval:1"), item_of(tag="restock:1"), item_of(ada, "approval:2")
    assert access.visible_items(UserFactory(may=[SEE])).count() == 1
    assert access.visible_items(ada).count() == 1
    assert access.visible_items(UserFactory()).count() == 0
    assert access.answerable_items(ada).count() == 0


def test_a_user_without_a_group_needs_no_condition_on_the_list(ada):
    """The desk's list stays one index look-up while nothing is guarded."""
    item_of()
    assert "WHERE" not in str(access.visible_items(UserFactory(may=[SEE])).query)
    assert access.visible_items(UserFactory(may=[SEE])).count() == Item.objects.count()


def test_mailboxes_are_their_owners(ada):
    mine, other = MailboxFactory(owner=ada), MailboxFactory()
    assert list(access.visible_mailboxes(ada)) == [mine]
    assert set(access.visible_mailboxes(UserFactory(may=["inbox.view_mailbox"]))) == {mine, other}
    assert list(access.visible_mailboxes(UserFactory())) == list(Mailbox.objects.none())
