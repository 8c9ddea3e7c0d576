"""A post to a tag group tells its members, by a row that is history and outbox in one; failures never touch the item."""

import smtplib

import pytest
from django.core import mail

from inbox import sweep
from inbox.clock import clock
from inbox.models import Notification
from inbox.notifiers.base import BaseNotifier, TransportError
from inbox.services import items, notifications
from inbox.tasks import notify
from tests.inbox.kit import a_mailbox, a_person, a_request, guard, now_of

pytestmark = pytest.mark.django_db
Status = Notification.Status

EMAIL = {"BACKEND": "inbox.notifiers.email.EmailNotifier", "OPTIONS": {}}
NULL = {"BACKEND": "inbox.notifiers.null.NullNotifier", "OPTIONS": {}}
FAILING = {"BACKEND": "tests.inbox.test_notifications.FailingNotifier", "OPTIONS": {}}


class FailingNotifier(BaseNotifier):
    """Raises what the test put here."""

    error: Exception = TransportError("The line is dead.")

    def send(self, item, recipients):
        raise self.error


@pytest.fixture
def desk(settings):
    """`approval:*` is answered by finance, of whom `ada` and `grace` can be told."""
    settings.INBOX_NOTIFIERS = {"default": EMAIL}
    settings.PUBLIC_URL = "https://glove.example"
    guard("approval:*", "finance")
    right = ("resolve_item",)
    a_person(*right, groups=("finance",), username="ada", email="ada@example.com")
    a_person(*right, groups=("finance",), username="grace", email="grace@example.com")
    a_person(*right, groups=("finance",), username="gone", email="gone@example.com", is_active=False)
    a_person(*right, groups=("finance",), username="unreachable")
    a_person(*right, groups=("kitchen",), username="cook", email="cook@example.com")
    a_person(groups=("finance",), username="trainee", email="trainee@example.com")


@pytest.fixture
def failing(settings, desk, monkeypatch):
    """`failing(error)`: the notifier raises this."""
    settings.INBOX_NOTIFIERS = {"default": FAILING}
    return lambda error: monkeypatch.setattr(FailingNotifier, "error", error)


def posted(request="Refund 10 to Bob?", **options):
    item = a_request("approval:refund", request, **options)
    return item, Notification.objects.get(item=item)


class TestQueueing:
    @pytest.fixture(autouse=True)
    def desk_there(self, desk):
        pass

    def test_one_row_per_notifier_that_tells_somebody(self, settings):
        settings.INBOX_NOTIFIERS = {"default": EMAIL, "pager": FAILING, "nobody": NULL}
        item = a_request("approval:refund")
        found = Notification.objects.filter(item=item).values_list("notifier", "status", "attempts")
        assert sorted(found) == [("default", "queued", 0), ("pager", "queued", 0)]
        assert not mail.outbox

    def test_a_tag_without_a_group_tells_nobody(self):
        a_request("restock:beans")
        assert not Notification.objects.exists()

    def test_an_item_that_was_joined_or_answered_at_once_tells_nobody_again(self):
        mailbox = a_mailbox()
        for _ in range(2):
            a_request("approval:refund", "Refund?", mailbox=mailbox)
        assert Notification.objects.count() == 1
        items.resolve_tag("approval:early", "Yes.", by="bank", via="webhook")
        a_request("approval:early")
        assert Notification.objects.count() == 1

    def test_without_a_notifier_that_tells_nothing_is_asked(self, settings, django_assert_num_queries):
        settings.INBOX_NOTIFIERS = {"default": NULL}
        item = a_request("approval:refund")
        with django_assert_num_queries(0):
            notifications.queue(item)

    def test_it_is_rung_after_commit(self, rings, django_capture_on_commit_callbacks):
        with django_capture_on_commit_callbacks(execute=True):
            _, row = posted()
            assert rings == []
        assert rings == [("inbox.notify", (row.pk,))]

    def test_a_notifier_that_cannot_be_made_does_not_stop_the_post(self, settings):
        settings.INBOX_NOTIFIERS = {"default": {"BACKEND": "no.such.Notifier", "OPTIONS": {}}}
        item, row = posted()
        assert notifications.deliver(row.pk) == "queued"
        row.refresh_from_db()
        assert "no" in row.error
        assert now_of(item).status == "pending"


class TestMail:
    @pytest.fixture(autouse=True)
    def desk_there(self, desk):
        pass

    def test_it_goes_to_active_members_who_may_answer(self):
        _, row = posted()
        notify(row.pk)
        row.refresh_from_db()
        assert (row.status, row.attempts, row.error) == (Status.SENT, 1, "")
        assert row.sent_at
        assert row.recipients == "ada@example.com, grace@example.com"
        assert [sent.to for sent in mail.outbox] == [["ada@example.com", "grace@example.com"]]

    def test_the_groups_of_every_pattern_that_fits_are_told(self):
        guard("approval:refund", "kitchen")
        _, row = posted()
        notify(row.pk)
        assert mail.outbox[0].to == ["ada@example.com", "cook@example.com", "grace@example.com"]

    def test_it_says_who_asks_what_and_where_to_answer(self):
        item, row = posted("Refund 10?\nOrder 7.", due_in_s=3600)
        notify(row.pk)
        sent = mail.outbox[0]
        assert sent.subject == "[Glove] approval:refund: Refund 10?"
        assert "> Refund 10?\n> Order 7.\n" in sent.body
        assert f"helper asks in {item.mailbox.address}" in sent.body
        assert f"https://glove.example/admin/inbox/item/{item.pk}/change/" in sent.body
        assert "To be answered by" in sent.body

    def test_it_holds_nothing_with_which_one_could_answer(self):
        _, row = posted()
        notify(row.pk)
        assert "/r/" not in mail.outbox[0].body

    def test_hidden_characters_are_marked_and_counted(self):
        _, row = posted("Refund 10\N{RIGHT-TO-LEFT OVERRIDE}?\r\nBcc: all@example.com")
        notify(row.pk)
        sent = mail.outbox[0]
        assert "> Refund 10<U+202E>?" in sent.body
        assert "1 characters of the request cannot be seen" in sent.body
        assert sent.subject == "[Glove] approval:refund: Refund 10<U+202E>?"
        assert sent.message()["Bcc"] is None

    def test_a_long_request_is_cut(self):
        _, row = posted("\n".join(f"line {n} " + "x" * 50 for n in range(100)))
        notify(row.pk)
        body = mail.outbox[0].body
        assert "line 7" in body
        assert "line 8" not in body
        assert "> [...]" in body

    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_a_short_one_is_not_said_to_be_cut(self, end):
        _, row = posted(f"Refund 10?{end}Order 7.{end}")
        notify(row.pk)
        assert "> Refund 10?\n> Order 7.\n\n" in mail.outbox[0].body
        assert "[...]" not in mail.outbox[0].body

    def test_options(self, settings):
        settings.INBOX_NOTIFIERS = {
            "default": {**EMAIL, "OPTIONS": {"from_email": "desk@example.com", "subject_prefix": ""}}
        }
        _, row = posted()
        notify(row.pk)
        assert mail.outbox[0].from_email == "desk@example.com"
        assert mail.outbox[0].subject.startswith("approval:refund")

    @pytest.mark.parametrize(
        ("error", "permanent"),
        [
            (smtplib.SMTPRecipientsRefused({"a": (550, b"no such user")}), True),
            (smtplib.SMTPRecipientsRefused({"a": (450, b"busy")}), False),
            (smtplib.SMTPDataError(554, b"spam"), True),
            (smtplib.SMTPDataError(451, b"later"), False),
            (smtplib.SMTPAuthenticationError(535, b"wrong password"), False),
            (smtplib.SMTPServerDisconnected("gone"), False),
            (ConnectionRefusedError(111, "refused"), False),
            (TimeoutError("slow"), False),
        ],
    )
    def test_which_faults_are_for_good(self, monkeypatch, error, permanent):
        def fail(self):
            raise error

        monkeypatch.setattr("django.core.mail.EmailMessage.send", fail)
        _, row = posted()
        assert notifications.deliver(row.pk) == ("failed" if permanent else "queued")
        row.refresh_from_db()
        assert type(error).__name__ in row.error


class TestFailing:
    def test_it_is_tried_again_later_and_later_and_then_given_up(self, failing, monkeypatch):
        failing(TransportError("The line is dead."))
        item, row = posted()
        waits = []
        for _ in range(notifications.MAX_ATTEMPTS):
            assert notifications.deliver(row.pk) in ("queued", "failed")
            assert notifications.deliver(row.pk) == "missed", "not before its time"
            row.refresh_from_db()
            waits.append(row.not_before)
            Notification.objects.update(not_before=clock())
        assert (row.status, row.attempts, row.error) == (
            Status.FAILED,
            notifications.MAX_ATTEMPTS,
            "The line is dead.",
        )
        assert waits == sorted(waits)
        assert (waits[3] - waits[2]).total_seconds() > 1000
        assert notifications.deliver(row.pk) == "missed"
        assert now_of(item).status == "pending"

    def test_a_permanent_fault_is_not_tried_again(self, failing):
        failing(TransportError("No such pager.", permanent=True))
        _, row = posted()
        assert notifications.deliver(row.pk) == "failed"

    def test_any_exception_is_kept_as_clean_text(self, failing):
        failing(ValueError("odd \x00 thing"))
        _, row = posted()
        assert notifications.deliver(row.pk) == "queued"
        row.refresh_from_db()
        assert row.error == "ValueError: odd \N{REPLACEMENT CHARACTER} thing"

    def test_nobody_to_tell_is_a_visible_failure(self, desk):
        guard("lonely:*", "empty group")
        item = a_request("lonely:1")
        row = Notification.objects.get(item=item)
        assert notifications.deliver(row.pk) == "failed"
        row.refresh_from_db()
        assert "Nobody in the tag's groups" in row.error

    def test_a_request_that_is_closed_first_needs_no_notice(self, desk):
        item, row = posted()
        items.resolve(item.pk, "Yes.", by="ada", via="admin")
        assert notifications.deliver(row.pk) == "skipped"
        assert not mail.outbox

    def test_a_sender_that_died_is_replaced_when_its_lease_lapses(self, desk):
        _, row = posted()
        Notification.objects.update(status=Status.SENDING, attempts=1, not_before=clock(60))
        assert notifications.deliver(row.pk) == "missed"
        Notification.objects.update(not_before=clock(-1))
        assert notifications.deliver(row.pk) == "sent"

    def test_one_whose_senders_always_die_is_given_up(self, desk):
        _, row = posted()
        Notification.objects.update(status=Status.SENDING, attempts=notifications.MAX_ATTEMPTS, not_before=clock(-1))
        assert notifications.deliver(row.pk) == "failed"
        assert not mail.outbox

    def test_a_sender_that_overslept_writes_nothing(self, failing, monkeypatch):
        _, row = posted()

        def oversleep(self, item, recipients):
            Notification.objects.update(attempts=5, not_before=clock(60))

        monkeypatch.setattr(FailingNotifier, "send", oversleep)
        assert notifications.deliver(row.pk) == "missed"
        row.refresh_from_db()
        assert (row.status, row.attempts) == (Status.SENDING, 5)


class TestTheSweep:
    def test_it_sends_what_no_bell_has_sent(self, desk):
        """Promise 28, case 46."""
        rows = [posted(f"Refund {n}?")[1] for n in range(3)]
        assert sweep.run_pass()["notifications"] == 3
        assert len(mail.outbox) == 3
        for row in rows * 3:
            notify(row.pk)
        assert len(mail.outbox) == 3
        assert notifications.deliver_due() == 0

    def test_many_at_once_send_one(self, settings, race):
        settings.INBOX_NOTIFIERS = {"default": EMAIL}
        guard("approval:*", "finance")
        a_person("resolve_item", groups=("finance",), email="ada@example.com")
        for number in range(5):
            _, row = posted(f"Refund {number}?")
            finish = race(6, lambda n, pk=row.pk: notifications.deliver(pk))
            assert not finish.errors
            assert sorted(finish.results) == ["missed"] * 5 + ["sent"]
        assert len(mail.outbox) == 5
