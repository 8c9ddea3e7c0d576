"""A signed link in a real browser, at the width of a phone and of a desk, in light and in dark."""

import pytest

from inbox.services import answers
from tests.inbox.kit import a_person, a_request, now_of

pytestmark = pytest.mark.django_db(transaction=True)

REQUEST = """May I give Bob 25.00 EUR back for order 7?

He says that two of three bags were torn: https://shop.example/photos/averyveryverylongaddressthatdoesnotfitonaphone/7.jpg
Paid 25\N{RIGHT-TO-LEFT OVERRIDE}.00"""


@pytest.fixture
def link(live_server):
    maker = a_person("resolve_item", "view_item", username="ada")
    item = a_request("approval:refund", REQUEST, due_in_s=3600)
    _, token = answers.make_link(maker, item.pk)
    return item, f"{live_server.url}/r/{token}"


@pytest.fixture
def complaints(page):
    """What the browser says on its console: breaches of the content security policy among it."""
    found = []
    page.on("console", lambda message: found.append(message.text))
    page.on("pageerror", lambda error: found.append(str(error)))
    return found


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_read_answer_and_answer_again(page, link, complaints, width, scheme, request):
    item, url = link
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    pictures = request.config.getoption("--output") + f"/link-{width}-{scheme}"

    def settle(name):
        page.screenshot(path=f"{pictures}-{name}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "it scrolls sideways"

    page.goto(url)
    settle("open")
    assert page.get_by_text("May I give Bob 25.00 EUR back").is_visible()
    assert page.get_by_text("<U+202E>").is_visible()
    other = page.context.new_page()
    other.set_viewport_size({"width": width, "height": 800})
    other.emulate_media(color_scheme=scheme)
    other.goto(url)
    page.get_by_label("Your answer").fill("Yes, all of it.")
    page.get_by_role("button", name="Send the answer").click()
    page.get_by_role("heading", name="Thank you").wait_for()
    settle("done")
    assert now_of(item).response == "Yes, all of it."
    other.get_by_label("Your answer").fill("No, half of it.")
    other.get_by_role("button", name="Send the answer").click()
    other.get_by_role("heading", name="Already closed").wait_for()
    assert other.get_by_label("What you typed").input_value() == "No, half of it."
    other.screenshot(path=f"{pictures}-closed.png", full_page=True)
    assert now_of(item).response == "Yes, all of it."
    page.goto(url[:-3] + "xyz")
    settle("dead")
    assert [text for text in complaints if "404" not in text] == []
