"""What a person does to an item: the right to this object, the service and the log entry, in one transaction."""

import pytest
from django.contrib.admin.models import LogEntry

from inbox.errors import (
    AlreadyClosed,
    BadDeadline,
    BadTag,
    BlankText,
    ItemNotFound,
    LinkGone,
    LinkUnknown,
    NotAllowed,
)
from inbox.models import Item, ResolveLink
from inbox.services import answers, items
from tests.factories import ItemFactory, MailboxFactory, TagGroupFactory, UserFactory, backdate, fresh

pytestmark = pytest.mark.django_db


@pytest.fixture
def clerk():
    return UserFactory(may=["inbox.resolve_item", "inbox.drop_item"], groups=["desk"])


@pytest.fixture
def item():
    return ItemFactory()


def entries():
    return list(LogEntry.objects.order_by("pk").values_list("user_id", "object_id", "change_message"))


@pytest.mark.parametrize(
    ("act", "outcome", "words"),
    [(answers.resolve_as, "answered", "Resolved (admin)."), (answers.cancel_as, "cancelled", "Cancelled (admin).")],
)
def test_answering_leaves_the_answer_and_one_entry(clerk, item, act, outcome, words):
    assert act(clerk, item.pk, "Since noon.", via="admin").pk == item.pk
    kept = fresh(item)
    assert (kept.outcome, kept.response, kept.resolved_by) == (outcome, "Since noon.", clerk.username)
    assert (kept.resolver_id, kept.resolved_via) == (clerk.pk, "admin")
    assert entries() == [(clerk.pk, str(item.pk), words)]


@pytest.mark.parametrize("act", [answers.resolve_as, answers.cancel_as])
def test_what_one_may_only_see_or_not_even_that(item, act):
    for user, error in (
        (UserFactory(may=["inbox.view_item"]), NotAllowed),
        (item.mailbox.owner or UserFactory(), ItemNotFound),
        (UserFactory(may=["inbox.resolve_item"], is_active=False), ItemNotFound),
    ):
        with pytest.raises(error):
            act(user, item.pk, "Yes.", via="api")
    assert (fresh(item).status, entries()) == ("pending", [])


def test_an_owner_may_not_answer_herself():
    ada = UserFactory()
    mine = ItemFactory(mailbox=MailboxFactory(owner=ada))
    with pytest.raises(NotAllowed):
        answers.resolve_as(ada, mine.pk, "Approved!", via="api")


def test_another_groups_item_is_not_found(clerk):
    TagGroupFactory(pattern="approval:*", of=["finance"])
    guarded = ItemFactory(tag="approval:refund")
    for act in (answers.resolve_as, answers.cancel_as):
        with pytest.raises(ItemNotFound):
            act(clerk, guarded.pk, "Yes.", via="api")
    with pytest.raises(ItemNotFound):
        answers.make_link(clerk, guarded.pk)


def test_a_late_answer_is_a_conflict_with_its_text_and_no_entry(clerk, item):
    items.resolve(item.pk, "First.", by="bob", via="api")
    with pytest.raises(AlreadyClosed) as late:
        answers.resolve_as(clerk, item.pk, "Second.", via="admin")
    assert (late.value.facts["text"], late.value.facts["by"]) == ("Second.", "bob")
    assert (fresh(item).response, entries()) == ("First.", [])


def test_an_expiry_is_never_told_as_a_refusal(clerk):
    """Promise 8: to whoever comes late, and in the words that the agent reads."""
    from agents.frames import outcome_line

    item = backdate(items.post(MailboxFactory().pk, tag="a", request="Yes or no?", due_in_s=60), 1, "due_at")
    items.expire_due()
    with pytest.raises(AlreadyClosed, match=r"^Already expired by deadline at "):
        answers.resolve_as(clerk, item.pk, "No.", via="admin")
    kept = fresh(item)
    assert (kept.response, kept.resolver_id) == (items.EXPIRED_TEXT, None)
    assert outcome_line(kept) == f"expired: nobody answered by {kept.due_at:%Y-%m-%d %H:%M} UTC"


# --- Dropping
def drop(user, **given):
    given = {"mailbox": "tester/x", "tag": "news", "request": "To you", "response": "It rains.", "via": "api", **given}
    return answers.drop_as(user, **given)


def test_dropping_is_labelled_and_logged(clerk):
    mailbox = MailboxFactory(address="tester/x")
    item = drop(clerk, mailbox="TESTER/x")
    assert (item.mailbox_id, item.asked, item.resolved_by, item.status) == (
        mailbox.pk,
        False,
        clerk.username,
        "resolved",
    )
    assert entries() == [(clerk.pk, str(item.pk), "Dropped (api).")]


def test_who_may_drop_where():
    ada = UserFactory(may=["inbox.drop_item"])
    MailboxFactory(address="tester/ada", owner=ada)
    MailboxFactory(address="tester/bob", owner=UserFactory())
    MailboxFactory(address="planner")
    for address in ("tester/ada", "planner"):
        assert drop(ada, mailbox=address)
    for user, address, error in (
        (ada, "tester/bob", ItemNotFound),
        (ada, "nowhere", ItemNotFound),
        (UserFactory(), "planner", NotAllowed),
    ):
        with pytest.raises(error):
            drop(user, mailbox=address)
    assert Item.objects.count() == 2


def test_a_tag_with_a_group_cannot_be_dropped(clerk):
    MailboxFactory(address="tester/x")
    TagGroupFactory(pattern="approval:*", of=["desk"])
    with pytest.raises(NotAllowed):
        drop(clerk, tag="approval:refund")
    for tag in ("mesh:from:x", "tool:refund"):
        with pytest.raises(BadTag):
            drop(clerk, tag=tag)
    assert not Item.objects.exists()


# --- Links
def test_a_link_answers_its_item_in_its_makers_name(clerk, item):
    link, token = answers.make_link(clerk, item.pk)
    assert answers.find_link(token).pk == link.pk
    assert token not in str(ResolveLink.objects.values().get())
    answers.resolve_by_link(token, "Since noon.")
    kept = fresh(item)
    assert (kept.resolved_via, kept.resolver_id, kept.resolved_by) == ("link", clerk.pk, f"a link by {clerk.username}")
    assert [words for *_, words in entries()] == [f"Made link {link.pk}.", f"Resolved (link {link.pk})."]
    with pytest.raises(AlreadyClosed) as again:
        answers.resolve_by_link(token, "Twice.")
    assert again.value.facts["text"] == "Twice."


def test_looking_at_a_link_changes_nothing(clerk, item):
    """Case 24, below the page."""
    _, token = answers.make_link(clerk, item.pk)
    before = (list(Item.objects.values()), list(ResolveLink.objects.values()), entries())
    for _ in range(3):
        answers.find_link(token)
    assert (list(Item.objects.values()), list(ResolveLink.objects.values()), entries()) == before


@pytest.mark.parametrize("end", ["expired", "revoked", "right", "group", "inactive"])
def test_a_link_dies(clerk, item, end):
    link, token = answers.make_link(clerk, item.pk)
    match end:
        case "expired":
            backdate(link, 1, "expires_at")
        case "revoked":
            assert answers.revoke_link(clerk, link.pk)
            assert not answers.revoke_link(clerk, link.pk)  # it is dead already
        case "right":
            clerk.user_permissions.clear()
        case "group":
            TagGroupFactory(pattern="*", of=["finance"])
        case "inactive":
            clerk.is_active = False
            clerk.save(update_fields=["is_active"])
    with pytest.raises(LinkGone):
        answers.find_link(token)
    with pytest.raises(LinkGone):
        answers.resolve_by_link(token, "Yes.")
    assert fresh(item).status == "pending"


@pytest.mark.parametrize("token", ["", "x", "a" * 500, "\ud800", "\x00"])
def test_what_is_no_link(token, item):
    with pytest.raises(LinkUnknown):
        answers.resolve_by_link(token, "Yes.")


@pytest.mark.parametrize("seconds", [0, 59, 31 * 86400, -5])
def test_how_long_a_link_may_live(clerk, item, seconds):
    with pytest.raises(BadDeadline):
        answers.make_link(clerk, item.pk, expires_in_s=seconds)


def test_who_may_make_and_revoke_a_link(clerk, item):
    viewer = UserFactory(may=["inbox.view_item"])
    link, _ = answers.make_link(clerk, item.pk)
    for user, error in ((viewer, NotAllowed), (UserFactory(), LinkUnknown)):
        with pytest.raises(error):
            answers.revoke_link(user, link.pk)
    with pytest.raises(NotAllowed):
        answers.make_link(viewer, item.pk)
    with pytest.raises(AlreadyClosed):
        answers.make_link(clerk, ItemFactory(resolved=True).pk)
    with pytest.raises(BlankText):
        answers.resolve_by_link(answers.make_link(clerk, item.pk)[1], " ")
