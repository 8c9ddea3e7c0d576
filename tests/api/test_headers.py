"""What every answer carries, and what a page may load."""

import pytest
from django.conf import settings

from tests.api.kit import BASE, by_key

PAGES = ["/admin/login/", "/no/such/page", f"{BASE}/docs", f"{BASE}/openapi.json", f"{BASE}/nowhere"]


@pytest.mark.django_db
@pytest.mark.parametrize("path", PAGES)
def test_on_every_page(client, path):
    headers = client.get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert "script-src" not in policy


@pytest.mark.django_db
@pytest.mark.parametrize("path", PAGES)
def test_through_all_middleware(client, path):
    headers = client.get(path).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"


@pytest.mark.django_db
def test_answers_of_the_api_are_not_stored(world, client):
    assert by_key(world.ada).get("/inbox/items")["Cache-Control"] == "no-store"
    for path in (f"{BASE}/nowhere", "/hooks/nowhere", "/r/nowhere"):
        assert "no-store" in client.get(path)["Cache-Control"]


def test_the_docs_load_from_here_alone(client):
    page = client.get(f"{BASE}/docs").content.decode()
    assert "/static/ninja/swagger-ui-bundle.js" in page
    assert "http://" not in page
    assert "https://" not in page
    assert "ninja" in settings.INSTALLED_APPS


@pytest.mark.browser
def test_the_docs_in_a_browser(live_server, page):
    """Nothing is asked of another host, and the policy refuses nothing that the page needs."""
    asked, said = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.goto(f"{live_server.url}{BASE}/docs")
    page.locator("#operations-inbox-inbox_resolve_item button").first.click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").wait_for()
    assert all(url.startswith((live_server.url, "data:", "blob:")) for url in asked), asked
    assert not [line for line in said if "Content Security Policy" in line], said
    page.screenshot(path="var/tests/browser/api-docs.png")


@pytest.mark.browser
def test_the_sites_pages_in_a_browser(live_server, page, admin_user):
    """The policy refuses nothing that the admin's pages, every one that its index leads to, and the customers' need."""
    said = []
    page.on("console", lambda message: said.append(f"{page.url}: {message.text}"))
    page.goto(f"{live_server.url}/admin/login/")
    page.fill("#id_username", "admin")
    page.fill("#id_password", "password")
    page.click("[type=submit]")
    page.goto(f"{live_server.url}/admin/")
    links = page.eval_on_selector_all("#content a, nav a", "found => found.map(link => new URL(link.href).pathname)")
    paths = sorted({path for path in links if path.startswith("/admin/")})
    assert len(paths) > 8
    for path in (*paths, f"/admin/auth/user/{admin_user.pk}/change/", "/"):
        page.goto(live_server.url + path)
    assert not [line for line in said if "Content Security Policy" in line], said
