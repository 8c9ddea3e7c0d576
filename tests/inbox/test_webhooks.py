"""POST /hooks/<name>: verified first, read strictly, one effect per event. Promise 27; cases 36, 37 and 43."""

import datetime
import json

import pytest
import time_machine
from django.db import connection
from standardwebhooks.webhooks import Webhook as Signer

from inbox import standard_webhooks, webhook
from inbox.models import EarlyAnswer, Item, WebhookReceipt
from tests.inbox.kit import a_request, now_of

pytestmark = pytest.mark.django_db

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
UTC = datetime.UTC
NOON = datetime.datetime(2026, 6, 1, 12, tzinfo=UTC)
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def called():
    """What the hook's function was given."""
    return []


@pytest.fixture
def open_hook(declarations, called):
    """/hooks/payments lets everyone in who sends `X-Secret: yes`."""

    @webhook("payments", verify=lambda request: request.headers.get("X-Secret") == "yes")
    def paid(payload):
        called.append(payload)
        return f"pay:{payload['order']}", f"Order {payload['order']} was paid."


@pytest.fixture
def standard_hook(declarations, called):
    """/hooks/bank takes what is signed by the Standard Webhooks specification."""

    @webhook("bank", verify=standard_webhooks(SECRET))
    def paid(payload):
        called.append(payload)
        return f"pay:{payload['order']}", f"Order {payload['order']} was paid."


def send(client, body, name="payments", kind="application/json", **headers):
    data = body if isinstance(body, bytes | str) else json.dumps(body)
    return client.generic("POST", f"/hooks/{name}", data, content_type=kind, headers={"X-Secret": "yes", **headers})


def signed(client, body, event="evt_1", at=NOON, secret=SECRET, **changed):
    data = json.dumps(body) if not isinstance(body, str) else body
    headers = {
        "webhook-id": event,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Signer(secret).sign(event, at, data),
        **changed,
    }
    return client.generic("POST", "/hooks/bank", data, content_type="application/json", headers=headers)


def problem_of(response):
    assert response["Content-Type"] == "application/problem+json", response.content
    found = json.loads(response.content)
    assert found["status"] == response.status_code
    return response.status_code, found["type"].rpartition(":")[2]


class TestAnyHook:
    def test_it_resolves_the_pending_items_with_exactly_that_tag(self, client, open_hook):
        one, two, other = a_request("pay:7"), a_request("pay:7"), a_request("pay:77")
        response = send(client, {"order": "7"})
        assert (response.status_code, response.json()) == (202, {"resolved": 2})
        for item in (one, two):
            found = now_of(item)
            assert (found.status, found.response, found.resolved_by, found.resolved_via) == (
                "resolved",
                "Order 7 was paid.",
                "payments",
                "webhook",
            )
        assert now_of(other).status == "pending"

    def test_csrf_is_not_asked_for(self, open_hook, django_user_model):
        from django.test import Client

        client = Client(enforce_csrf_checks=True)
        client.force_login(django_user_model.objects.create_user("ada"))
        assert send(client, {"order": "7"}).status_code == 202

    def test_none_is_nothing_to_do(self, client, declarations):
        webhook("payments", verify=lambda request: True)(lambda payload: None)
        assert send(client, {}).json() == {"resolved": 0}
        assert not EarlyAnswer.objects.exists()

    def test_an_answer_before_its_request_is_kept_for_it(self, client, open_hook):
        assert send(client, {"order": "7"}).json() == {"resolved": 0}
        item = now_of(a_request("pay:7"))
        assert (item.status, item.response, item.resolved_via) == ("resolved", "Order 7 was paid.", "webhook")
        assert now_of(a_request("pay:7", request="And again?")).status == "pending"

    def test_a_form_is_read_too(self, client, open_hook):
        item = a_request("pay:7")
        assert send(client, "order=7&note=caf%C3%A9", kind=FORM).json() == {"resolved": 1}
        assert now_of(item).status == "resolved"

    def test_an_unknown_hook(self, client, open_hook):
        assert problem_of(send(client, {}, name="nobody")) == (404, "unknown-hook")

    @pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
    def test_other_methods(self, client, open_hook, method, called):
        response = client.generic(method, "/hooks/payments", headers={"X-Secret": "yes"})
        assert response.status_code == 405
        assert "POST" in response["Allow"]
        assert not called


class TestWhoIsNotVerified:
    def test_a_bad_signature_changes_nothing_and_is_read_no_further(self, client, open_hook, called):
        item = a_request("pay:7")
        response = client.generic("POST", "/hooks/payments", b"not even JSON", content_type="application/json")
        assert problem_of(response) == (401, "bad-signature")
        assert not called
        assert now_of(item).status == "pending"

    @pytest.mark.parametrize(
        "verify",
        [
            lambda request: None,
            lambda request: {"the": "payload"},
            lambda request: 1,
            lambda request: request.headers["X-Not-There"],
        ],
    )
    def test_only_true_is_yes(self, client, declarations, called, verify):
        webhook("payments", verify=verify)(called.append)
        assert problem_of(send(client, {})) == (401, "bad-signature")
        assert not called


class TestWhatCannotBeRead:
    @pytest.mark.parametrize(
        ("body", "kind", "expected"),
        [
            (b"{", "application/json", (400, "malformed-json")),
            (b"", "application/json", (400, "malformed-json")),
            (b'{"order": "7", "order": "8"}', "application/json", (400, "duplicate-key")),
            (b'{"order": NaN}', "application/json", (422, "bad-number")),
            (b'{"order": 1e400}', "application/json", (422, "bad-number")),
            (b'{"order": "7\\u0000"}', "application/json", (422, "text")),
            (b'{"order": "\\ud800"}', "application/json", (422, "text")),
            (b"\xff\xfe", "application/json", (400, "malformed-json")),
            (b"order=7%00", FORM, (422, "text")),
        ],
    )
    def test_it_is_refused_before_the_function(self, client, open_hook, called, body, kind, expected):
        assert problem_of(send(client, body, kind=kind)) == expected
        assert not called

    def test_a_body_over_the_limit(self, client, open_hook, settings):
        settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
        assert problem_of(send(client, {"order": "7" * 2000})) == (413, "body-too-large")


class TestAFunctionThatFails:
    @pytest.mark.parametrize("result", ["pay:7", ("pay:7",), ["pay:7", "Paid."], 5])
    def test_a_wrong_result(self, client, declarations, result, caplog):
        webhook("payments", verify=lambda request: True)(lambda payload: result)
        assert problem_of(send(client, {})) == (500, "hook-failed")
        assert "not (tag, answer) or None" in caplog.text

    def test_it_is_logged_and_may_be_sent_again(self, client, declarations, caplog):
        broken = [True]

        @webhook("bank", verify=standard_webhooks(SECRET))
        def paid(payload):
            if broken:
                raise RuntimeError("the till is locked")
            return "pay:7", "Paid."

        item = a_request("pay:7")
        with time_machine.travel(NOON, tick=False):
            response = signed(client, {})
            assert problem_of(response) == (500, "hook-failed")
            assert "the till" not in response.content.decode()
            assert "the till is locked" in caplog.text
            assert now_of(item).status == "pending"
            assert not WebhookReceipt.objects.exists()
            broken.clear()
            assert signed(client, {}).json() == {"resolved": 1}

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            (("two words", "Paid."), (422, "bad-tag")),
            (("mesh:waiting:1", "Paid."), (422, "bad-tag")),
            ((7, "Paid."), (422, "bad-tag")),
            (("pay:7", " "), (422, "blank-text")),
            (("pay:7", None), (422, "text")),
            (("pay:7", "a\x00"), (422, "text")),
            (("pay:7", "x" * 70_000), (413, "text-too-long")),
        ],
    )
    def test_an_answer_that_cannot_be_stored(self, client, declarations, answer, expected):
        webhook("bank", verify=standard_webhooks(SECRET))(lambda payload: answer)
        with time_machine.travel(NOON, tick=False):
            assert problem_of(signed(client, {})) == expected
        assert not WebhookReceipt.objects.exists()
        assert not EarlyAnswer.objects.exists()

    @pytest.mark.django_db(transaction=True)
    def test_no_transaction_is_open_while_it_runs(self, client, declarations):
        open_then = []
        webhook("payments", verify=lambda request: True)(lambda payload: open_then.append(connection.in_atomic_block))
        send(client, {})
        assert open_then == [False]


class TestAVerifyOfOnesOwnWithEventIds:
    @pytest.fixture
    def verify(self, declarations):
        def verify(request):
            return True

        webhook("own", verify=verify)(lambda payload: ("pay:7", "Paid."))
        return verify

    def test_the_id_is_remembered(self, client, verify):
        verify.event_id = lambda request: request.headers["X-Event"]
        for event, expected in (("1", 1), ("1", 0), ("é" * 300, 1), ("é" * 300, 0)):
            a_request("pay:7", request=f"{event} {expected}")
            EarlyAnswer.objects.all().delete()
            response = send(client, {}, name="own", **{"X-Event": event})
            assert response.status_code == 202
            assert (response.json()["resolved"] > 0) == bool(expected)

    def test_an_id_that_cannot_be_read(self, client, verify):
        verify.event_id = lambda request: request.headers["X-Event"]
        assert problem_of(send(client, {}, name="own")) == (500, "hook-failed")


class TestStandardWebhooks:
    """Case 43, and what the specification asks for."""

    @pytest.mark.parametrize("seconds", [0, 10, 299, -299])
    def test_a_replay_inside_the_window_has_no_second_effect(self, client, standard_hook, seconds, called):
        item = a_request("pay:7")
        with time_machine.travel(NOON, tick=False):
            assert signed(client, {"order": "7"}).json() == {"resolved": 1}
        later = a_request("pay:7", request="Once more?")
        with time_machine.travel(NOON + datetime.timedelta(seconds=seconds), tick=False):
            response = signed(client, {"order": "7"})
        assert (response.status_code, response.json()) == (202, {"resolved": 0})
        assert now_of(item).status == "resolved"
        assert now_of(later).status == "pending"
        assert not EarlyAnswer.objects.exists()
        assert len(called) == 1

    @pytest.mark.parametrize("seconds", [301, -301, 86_400])
    def test_outside_the_window(self, client, standard_hook, seconds, called):
        item = a_request("pay:7")
        with time_machine.travel(NOON + datetime.timedelta(seconds=seconds), tick=False):
            assert problem_of(signed(client, {"order": "7"})) == (401, "bad-signature")
        assert now_of(item).status == "pending"
        assert not called

    def test_its_id_again_after_an_hour_with_a_fresh_signature(self, client, standard_hook):
        with time_machine.travel(NOON, tick=False):
            signed(client, {"order": "7"})
        EarlyAnswer.objects.all().delete()
        item = a_request("pay:7")
        later = NOON + datetime.timedelta(hours=1)
        with time_machine.travel(later, tick=False):
            response = signed(client, {"order": "7"}, at=later)
        assert (response.status_code, response.json()) == (202, {"resolved": 0})
        assert now_of(item).status == "pending"

    def test_another_event_has_its_own_effect(self, client, standard_hook):
        with time_machine.travel(NOON, tick=False):
            signed(client, {"order": "7"})
            a_request("pay:8")
            assert signed(client, {"order": "8"}, event="evt_2").json() == {"resolved": 1}

    def test_one_of_several_signatures_is_enough(self, client, standard_hook):
        good = Signer(SECRET).sign("evt_1", NOON, "{}")
        with time_machine.travel(NOON, tick=False):
            response = signed(client, "{}", **{"webhook-signature": f"v1a,abc v1,AAAA {good}"})
        assert response.status_code == 500  # verified: the function found no order

    @pytest.mark.parametrize(
        "changed",
        [
            {"webhook-signature": ""},
            {"webhook-signature": "v1"},
            {"webhook-signature": "v1,not base64"},
            {"webhook-signature": "v2,AAAA"},
            {"webhook-id": "evt_2"},
            {"webhook-timestamp": "noon"},
            {"webhook-timestamp": "nan"},
            {"webhook-timestamp": "1e400"},
            {"webhook-timestamp": str(int(NOON.timestamp()) + 1)},
        ],
    )
    def test_what_is_not_signed(self, client, standard_hook, changed, called):
        with time_machine.travel(NOON, tick=False):
            assert problem_of(signed(client, {"order": "7"}, **changed)) == (401, "bad-signature")
        assert not called

    def test_the_raw_body_is_signed(self, client, standard_hook):
        """Not its meaning: one space more, and it is another body."""
        with time_machine.travel(NOON, tick=False):
            fine = Signer(SECRET).sign("evt_1", NOON, '{"order":"7"}')
            assert signed(client, '{"order": "7"}', **{"webhook-signature": fine}).status_code == 401
            assert signed(client, '{"order":"7"}', **{"webhook-signature": fine}).status_code == 202

    def test_another_secret(self, client, standard_hook):
        with time_machine.travel(NOON, tick=False):
            assert signed(client, {"order": "7"}, secret="whsec_c29tZXRoaW5nIGVsc2U=").status_code == 401

    def test_a_body_that_is_not_utf8(self, client, standard_hook):
        headers = {"webhook-id": "x", "webhook-timestamp": str(int(NOON.timestamp())), "webhook-signature": "v1,AAAA"}
        with time_machine.travel(NOON, tick=False):
            response = client.generic("POST", "/hooks/bank", b"\xff", headers=headers)
        assert problem_of(response) == (401, "bad-signature")

    def test_a_long_id_is_kept_as_its_hash(self, client, standard_hook):
        a_request("pay:7")
        with time_machine.travel(NOON, tick=False):
            assert signed(client, {"order": "7"}, event="e" * 500).json() == {"resolved": 1}
            assert signed(client, {"order": "7"}, event="e" * 500).json() == {"resolved": 0}
        assert len(WebhookReceipt.objects.get().event_id) == 64

    def test_the_same_id_at_two_hooks_is_two_events(self, client, standard_hook):
        webhook("bank2", verify=standard_webhooks(SECRET))(lambda payload: ("other", "Done."))
        WebhookReceipt.objects.create(hook="bank2", event_id="evt_1")
        a_request("pay:7")
        with time_machine.travel(NOON, tick=False):
            assert signed(client, {"order": "7"}).json() == {"resolved": 1}

    def test_an_event_that_comes_many_times_at_once(self, standard_hook, race):
        from django.test import Client

        item = a_request("pay:7")
        with time_machine.travel(NOON, tick=False):
            finish = race(8, lambda n: signed(Client(), {"order": "7"}))
        assert not finish.errors
        assert [response.status_code for response in finish.results] == [202] * 8
        assert sum(response.json()["resolved"] for response in finish.results) == 1
        assert Item.objects.filter(status="resolved").get() == item
        assert WebhookReceipt.objects.count() == 1
        assert not EarlyAnswer.objects.exists()
