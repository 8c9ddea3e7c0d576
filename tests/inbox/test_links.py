"""/r/<token>: looking changes nothing, posting answers once, in its maker's name and only while she has the right."""

import json

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from inbox.clock import clock
from inbox.models import Item, ResolveLink
from inbox.services import answers, items
from tests.inbox.kit import a_person, a_request, now_of

pytestmark = pytest.mark.django_db

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
JSON = "application/json"


@pytest.fixture
def maker():
    return a_person("resolve_item", "view_item", username="ada")


@pytest.fixture
def item():
    return a_request("approval:refund", "Refund 10 to Bob?")


@pytest.fixture
def address(maker, item):
    _, token = answers.make_link(maker, item.pk)
    return f"/r/{token}"


@pytest.fixture
def visitor():
    """With CSRF checks, as in production, and no cookie."""
    return Client(enforce_csrf_checks=True, headers=HTML)


@pytest.fixture
def program():
    return Client(enforce_csrf_checks=True)


def every_row():
    rows = [list(model.objects.order_by("pk").values()) for model in (Item, ResolveLink)]
    return rows, LogEntry.objects.count()


def post_json(client, address, body):
    return client.post(address, body if isinstance(body, bytes | str) else json.dumps(body), content_type=JSON)


def problem_of(response):
    assert response["Content-Type"] == "application/problem+json", response.content
    found = json.loads(response.content)
    assert found["status"] == response.status_code
    return response.status_code, found["type"].rpartition(":")[2], found


class TestLooking:
    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    def test_it_changes_nothing(self, visitor, address, method):
        """Case 24: mail scanners open every link."""
        before = every_row()
        for _ in range(3):
            assert visitor.generic(method, address).status_code == 200
        assert every_row() == before

    def test_it_shows_the_request_and_one_box(self, visitor, address):
        page = visitor.get(address).content.decode()
        assert "Refund 10 to Bob?" in page
        assert page.count("<textarea") == 1
        assert "<script" not in page
        assert "http" not in page.replace("http-equiv", ""), "nothing external"

    def test_headers_that_keep_the_token_private(self, visitor, address):
        for response in (visitor.get(address), visitor.get("/r/unknown"), post_json(visitor, address, {})):
            assert response["Referrer-Policy"] == "no-referrer"
            assert response["Cache-Control"] == "no-store"
            assert "noindex" in response["X-Robots-Tag"]
            assert "default-src 'none'" in response["Content-Security-Policy"]
            assert "unsafe" not in response["Content-Security-Policy"]
            assert not response.cookies

    def test_hidden_characters_are_marked_and_counted(self, visitor, maker):
        """Case 39."""
        sly = a_request("approval:x", "Refund 10\N{RIGHT-TO-LEFT OVERRIDE}\N{ZERO WIDTH SPACE}0")
        _, token = answers.make_link(maker, sly.pk)
        page = visitor.get(f"/r/{token}").content.decode()
        assert "Refund 10&lt;U+202E&gt;&lt;U+200B&gt;0" in page
        assert "2 characters of this request cannot be seen" in page

    def test_a_request_is_literal_text(self, visitor, maker):
        """Case 40."""
        sly = a_request(
            "approval:x", "<img src=x onerror=alert(1)> [x](javascript:alert(1)) ![](https://evil.example/p.png)"
        )
        _, token = answers.make_link(maker, sly.pk)
        page = visitor.get(f"/r/{token}").content.decode()
        assert "&lt;img src=x onerror=alert(1)&gt; [x](javascript:alert(1))" in page
        assert "<img" not in page
        assert "<a " not in page

    @pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
    def test_other_methods(self, visitor, address, method):
        assert visitor.generic(method, address).status_code == 405


class TestAnswering:
    @pytest.mark.parametrize(
        ("sent", "kind"),
        [
            (json.dumps({"response": "Yes,\nten."}), JSON),
            ("response=Yes%2C%0D%0Aten.", "application/x-www-form-urlencoded"),
            ("Yes,\nten.", "text/plain"),
            ("Yes,\nten.", "text/plain; charset=utf-8"),
        ],
    )
    def test_json_a_form_or_plain_text(self, program, address, item, sent, kind):
        response = program.generic("POST", address, sent, content_type=kind)
        assert response.status_code == 200, response.content
        assert response.json()["id"] == str(item.pk)
        assert response.json()["status"] == "resolved"
        found = now_of(item)
        assert (found.response, found.resolved_via, found.resolver.username) == ("Yes,\nten.", "link", "ada")
        assert "ada" in found.resolved_by
        assert LogEntry.objects.filter(object_id=str(item.pk), change_message__startswith="Resolved").count() == 1

    def test_a_browser_gets_a_page(self, visitor, address, item):
        response = visitor.post(address, {"response": "Yes."})
        assert response.status_code == 200
        assert "Thank you" in response.content.decode()
        assert now_of(item).response == "Yes."

    def test_a_used_link(self, program, visitor, address, item):
        post_json(program, address, {"response": "Yes."})
        status, slug, facts = problem_of(post_json(program, address, {"response": "No, never."}))
        assert (status, slug) == (409, "already-closed")
        assert facts["text"] == "No, never."
        assert "ada" in facts["by"]
        assert facts["at"]
        page = visitor.post(address, {"response": "No, <b>never</b>."})
        assert page.status_code == 409
        text = page.content.decode()
        assert "No, &lt;b&gt;never&lt;/b&gt;." in text
        assert "What you typed was not sent" in text
        assert "ada" in text
        assert visitor.get(address).status_code == 409
        assert now_of(item).response == "Yes."

    def test_a_double_click_is_told_that_all_is_well(self, visitor, address, item):
        for expected in (200, 409):
            response = visitor.post(address, {"response": "Yes,\r\nten."})
            assert response.status_code == expected
        assert "The answer that was sent is the one below" in response.content.decode()

    def test_who_else_was_first_is_named(self, visitor, address, item):
        items.cancel(item.pk, "Not needed.", by="grace", via="admin")
        page = visitor.post(address, {"response": "Yes."}).content.decode()
        assert "cancelled by grace" in page
        assert "Not needed." not in page, "another's words are not hers to read"

    @pytest.mark.parametrize(
        ("sent", "kind", "expected"),
        [
            (b"{", JSON, (400, "malformed-json")),
            (b'{"response": "a", "response": "b"}', JSON, (400, "duplicate-key")),
            (b'{"response": NaN}', JSON, (422, "bad-number")),
            (b'{"response": "\\u0000"}', JSON, (422, "text")),
            (b'{"response": 5}', JSON, (422, "text")),
            (b'{"answer": "yes"}', JSON, (422, "text")),
            (b'["yes"]', JSON, (422, "text")),
            (b'{"response": " \\n "}', JSON, (422, "blank-text")),
            (b"", "text/plain", (422, "blank-text")),
            (b"\xff", "text/plain", (422, "text")),
            (b"a\x00b", "text/plain", (422, "text")),
            (b"x" * 70_000, "text/plain", (413, "text-too-long")),
            (b"response=", "application/x-www-form-urlencoded", (422, "blank-text")),
            (b"other=1", "application/x-www-form-urlencoded", (422, "blank-text")),
            (b"response=yes", "application/x-www-form-urlencoded; charset=utf-16", (422, "text")),
            (b"&".join([b"a=1"] * 1500), "application/x-www-form-urlencoded", (422, "text")),
            (b"yes", "multipart/form-data", (422, "text")),
            (b"<response/>", "application/xml", (415, "content-type")),
        ],
    )
    def test_what_cannot_be_an_answer_changes_nothing(self, program, address, item, sent, kind, expected):
        response = program.generic("POST", address, sent, content_type=kind)
        assert problem_of(response)[:2] == expected
        assert now_of(item).status == "pending"

    def test_a_form_that_cannot_be_read_is_told_on_a_page(self, visitor, address, settings):
        settings.DEBUG = True  # where Django's own page of the error would read the form again
        kind = "application/x-www-form-urlencoded; charset=utf-16"
        response = visitor.generic("POST", address, b"response=yes", content_type=kind)
        assert response.status_code == 422
        assert "The form cannot be read" in response.content.decode()

    def test_a_body_over_the_limit(self, program, address, item, settings):
        settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
        assert problem_of(post_json(program, address, {"response": "x" * 2000}))[:2] == (413, "body-too-large")

    def test_a_blank_form_comes_back_with_what_is_wrong(self, visitor, address, item):
        response = visitor.post(address, {"response": "  "})
        assert response.status_code == 422
        assert "response is blank" in response.content.decode()
        assert now_of(item).status == "pending"

    def test_many_at_once(self, address, item, race):
        """Promise 2."""
        finish = race(8, lambda n: post_json(Client(), address, {"response": f"Answer {n}"}))
        assert not finish.errors
        assert sorted(response.status_code for response in finish.results) == [200] + [409] * 7
        winner = next(n for n, response in enumerate(finish.results) if response.status_code == 200)
        assert now_of(item).response == f"Answer {winner}"
        assert LogEntry.objects.filter(change_message__startswith="Resolved").count() == 1


class TestADeadLink:
    def unknown(self, address):
        return 404, "/r/" + "x" * 43

    def expired(self, address):
        ResolveLink.objects.update(expires_at=clock(-1))
        return 410, address

    def revoked(self, address):
        link = ResolveLink.objects.get()
        answers.revoke_link(link.maker, link.pk)
        return 410, address

    def without_its_makers_right(self, address):
        ResolveLink.objects.get().maker.user_permissions.clear()
        return 410, address

    def of_a_maker_who_left(self, address):
        maker = ResolveLink.objects.get().maker
        maker.is_active = False
        maker.save()
        return 410, address

    @pytest.mark.parametrize(
        "why", ["unknown", "expired", "revoked", "without_its_makers_right", "of_a_maker_who_left"]
    )
    def test_it_answers_nothing_and_shows_nothing(self, visitor, program, address, item, why):
        status, address = getattr(self, why)(address)
        for response in (visitor.get(address), visitor.post(address, {"response": "Yes."})):
            assert response.status_code == status
            assert "Refund" not in response.content.decode()
            assert "This link does not work" in response.content.decode()
        for body in ({"response": "Yes."}, {"response": ""}, b"not JSON"):
            found = problem_of(post_json(program, address, body))
            assert found[0] == status
            assert "Refund" not in json.dumps(found[2])
        assert now_of(item).status == "pending"

    @pytest.mark.parametrize("token", ["%00", "%ff", "a" * 3000, "%ED%A0%80", "..", "é"])
    def test_strange_tokens(self, visitor, program, token):
        assert visitor.get(f"/r/{token}").status_code == 404
        assert post_json(program, f"/r/{token}", {"response": "x"}).status_code == 404


def test_the_token_is_not_kept(maker, item):
    _, token = answers.make_link(maker, item.pk)
    assert token not in str(ResolveLink.objects.values().get())
