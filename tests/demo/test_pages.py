"""The sign-in and the customer's page: who gets them, what they may load, that they hold no script of their own."""

import re
import subprocess
import sys

import pytest
from django.contrib.staticfiles import finders

from inbox.text import MAX_BYTES
from tests.environment import ROOT

pytestmark = pytest.mark.one_database


@pytest.fixture
def signed_in(client, ada):
    client.force_login(ada)
    return client


def test_a_stranger_is_sent_to_sign_in(client, db):
    answer = client.get("/")
    assert (answer.status_code, answer["Location"]) == (302, "/login?next=/")
    assert client.get("/login").status_code == 200


def test_signing_in_and_out(client, ada):
    ada.set_password("a word")
    ada.save()
    assert "The name or the password is wrong" in client.post("/login", {"username": "ada", "password": "x"}).text
    answer = client.post("/login", {"username": "ada", "password": "a word", "next": "//evil.example/"})
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert client.get("/login")["Location"] == "/"  # signed in already
    assert client.get("/logout").status_code == 405  # a link must not sign out
    assert client.post("/logout")["Location"] == "/login"
    assert client.get("/").status_code == 302


def test_what_was_typed_as_a_name_is_text(client, db):
    page = client.post("/login", {"username": '"><img src=x onerror=alert(1)>', "password": "x"}).text
    assert "<img" not in page


@pytest.mark.parametrize("path", ["/", "/login"])
def test_pages_hold_no_script_or_style_and_load_only_from_here(client, ada, path):
    if path == "/":
        client.force_login(ada)
    answer = client.get(path)
    assert "default-src 'self'" in answer["Content-Security-Policy"]
    assert "unsafe" not in answer["Content-Security-Policy"]
    page = answer.text
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", page)
    for script in re.findall(r"<script\b[^>]*>([^<]*)</script>", page):
        assert not script.strip()
    for address in re.findall(r"(?:src|href)=\"([^\"#]+)\"", page):
        assert address.startswith("/")
        if address.startswith("/static/"):
            assert finders.find(address.removeprefix("/static/"))


def test_the_page_tells_its_script_what_it_needs(signed_in, ada):
    page = signed_in.get("/").text
    for name, value in (
        ("api", "/api/v1"),
        ("login", "/login"),
        ("user", "ada"),
        ("user-id", ada.pk),
        ("limit", MAX_BYTES),
    ):
        assert f'data-{name}="{value}"' in page
    assert re.search(r'data-csrf="\w{64}"', page)
    assert "no-store" in signed_in.get("/")["Cache-Control"]
    assert signed_in.post("/").status_code == 405


def test_the_script_sets_text_only_as_text():
    script = (ROOT / "demo/static/demo/talk.js").read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", script)


def test_without_the_demo_there_is_a_plain_page_and_the_sign_in(child_environment):
    code = (
        "import django; django.setup()\n"
        "from django.test import Client\n"
        "home, login = Client().get('/'), Client().get('/login')\n"
        "print(home.status_code, login.status_code, '/api/v1/docs' in home.text, '/admin/' in home.text)"
    )
    environment = {
        **child_environment,
        "GLOVE_DEMO": "0",
        "DJANGO_SETTINGS_MODULE": "glove_site.settings",
        "ALLOWED_HOSTS": "*",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "200 200 True True\n", done.stderr
