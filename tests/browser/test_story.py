"""The story of README in a real browser, on a real `manage.py serve`: the customer never types to learn the news."""

import os
import re
import signal
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.demo.shop import Installation, shop  # noqa: F401 (a fixture)
from tests.environment import ROOT
from tests.processes import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

# With GLOVE_TEST_PICTURES=1 the pages are written to docs/img/demo, for README and docs.
PICTURES = Path(ROOT, "docs", "img", "demo") if os.environ.get("GLOVE_TEST_PICTURES") == "1" else None
SIZES = {"wide": (1280, 800), "narrow": (390, 844)}
NEWS_S = 30_000  # ms: the resolver looks every 5 s, the page every 2 s; the rest is for a busy machine


@pytest.fixture
def contexts(browser: Browser):
    """Browsers of different people: each has its own cookies. Nothing may fail or be blocked in any of them."""
    opened: list[BrowserContext] = []
    complaints: list[str] = []

    def new() -> Page:
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        opened.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console", lambda said: complaints.append(said.text) if "Content Security Policy" in said.text else None
        )
        return page

    yield new
    for context in opened:
        context.close()
    assert not complaints


def sign_in(page: Page, shop: Installation, name: str, path: str = "/") -> Page:  # noqa: F811
    page.goto(shop.url + path)
    page.fill("#id_username", name)
    page.fill("#id_password", shop.passwords[name])
    page.press("#id_password", "Enter")
    expect(page.locator("#id_password")).to_have_count(0)
    return page


def say(page: Page, text: str) -> None:
    page.fill("#text", text)
    expect(page.locator("#send")).to_be_enabled()
    page.press("#text", "Enter")
    expect(page.locator("#text")).to_have_value("")


def hears(page: Page, text: str, within: int = NEWS_S) -> None:
    """The agent's newest message comes to hold this, without anything being typed or loaded again."""
    expect(page.locator("#messages .theirs .words").last).to_contain_text(text, timeout=within)


def waits_for(page: Page, *labels: str) -> None:
    expect(page.locator("#waiting .label")).to_have_text(list(labels), timeout=NEWS_S)


def picture(page: Page, name: str) -> None:
    """The page wide and narrow, light and dark; nothing runs over its edge."""
    for size, (width, height) in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.wait_for_timeout(100)
            assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), (
                name,
                size,
            )
            if PICTURES:
                PICTURES.mkdir(parents=True, exist_ok=True)
                page.screenshot(path=PICTURES / f"{name}-{size}-{scheme}.png")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.emulate_media(color_scheme="light")


def test_the_story(shop, contexts):  # noqa: F811
    ada = contexts()
    ada.goto(shop.url)
    assert re.fullmatch(rf"{shop.url}/login\?next=/", ada.url)
    picture(ada, "sign-in")
    sign_in(ada, shop, "ada")

    # Out of stock: the agent posts, and goes on talking.
    say(ada, "order 3 bags of Huila")
    hears(ada, "I will write to you here")
    waits_for(ada, "Back in stock: huila")
    expect(ada.locator("#tasks")).to_contain_text("Waiting for Huila")
    say(ada, "what is 2+2?")
    hears(ada, "2 + 2 is 4.")

    # A refund above the limit waits for staff; it is blocking, and other questions are still answered.
    say(ada, "refund order 1")
    hears(ada, "I have asked the staff")
    waits_for(ada, "Back in stock: huila", "Approval: refund")
    expect(ada.locator("#waiting .blocking")).to_have_text("The agent said that it would wait for this.")
    say(ada, "what is 7 x 6?")
    hears(ada, "7 x 6 is 42.")
    hears(ada, "I still wait for an answer to “Refund €36.00 for order 1”")
    picture(ada, "waiting")

    # Another agent is asked by letter, and answers from a file of its own.
    say(ada, "when is the next roast of Huila?")
    hears(ada, "The roaster writes: Next roast: Huila on Thursday ")
    expect(ada.locator("#messages .mail summary").last).to_have_text("Mail received: Answer from roaster")

    # What is not on the roaster's plan both agents wait for; the page says for whom.
    say(ada, "when is the next roast of decaf?")
    hears(ada, "Only the roaster knows that. I have asked")
    waits_for(ada, "Back in stock: huila", "Approval: refund", "Answer from roaster")
    expect(ada.locator("#waiting .words").last).to_have_text("When is the next roast of Sierra Decaf?")
    expect(ada.locator("#tasks")).to_contain_text("Waiting for the roaster: When is the next roast of Sierra Decaf?")
    picture(ada, "asked")

    # The power goes, and comes back. Nothing is lost, and the page finds the server again by itself.
    shop.stop(signal.SIGKILL)
    expect(ada.locator("#banner")).to_contain_text("Trying again in", timeout=NEWS_S)
    shop.serve()
    expect(ada.locator("#banner")).to_be_hidden(timeout=60_000)
    waits_for(ada, "Back in stock: huila", "Approval: refund", "Answer from roaster")
    shop.roasts.write_text(shop.roasts.read_text() + "decaf,Friday,8\n")
    hears(ada, "The roaster writes: Next roast: Sierra Decaf on Friday ")
    waits_for(ada, "Back in stock: huila", "Approval: refund")

    # Staff answer in the admin, in another browser.
    barista = sign_in(contexts(), shop, "barista", "/admin/inbox/item/")
    barista.get_by_text("Refund €36.00 for order 1").first.click()
    barista.fill("#response", "Approved. Sorry for the trouble.")
    barista.get_by_role("button", name="Resolve and wake").click()
    expect(barista.get_by_text("Answered by barista").first).to_be_visible()
    hears(ada, "Refunded: €36.00 of order 1.")
    waits_for(ada, "Back in stock: huila")

    # They answer agents that wait for the shop, as they answer customers'.
    say(ada, "when is the next roast of Yirgacheffe?")
    waits_for(ada, "Back in stock: huila", "Answer from roaster")
    asked = barista.get_by_text("When is the next roast of Yirgacheffe?")
    # The roaster is woken first, and asks then.
    until(lambda: barista.goto(f"{shop.url}/admin/inbox/item/") and asked.count(), NEWS_S / 1000, 0.5)
    asked.first.click()
    barista.fill("#response", "Not before Christmas.")
    barista.get_by_role("button", name="Resolve and wake").click()
    hears(ada, "The roaster writes: Not before Christmas.")

    # Staff may read other people's conversations, but this page shows everybody her own.
    barista.goto(shop.url)
    say(barista, "what coffee do you have?")
    hears(barista, "22 bags of Yirgacheffe left")
    expect(barista.locator("#conversations li")).to_have_count(1)
    expect(barista.locator("#title")).to_have_text("what coffee do you have?")

    # The stock file is edited; the cron resolver answers.
    shop.has("huila", 12)
    hears(ada, "News about Huila: 12 bags of Huila are here.")
    expect(ada.locator("#announce[aria-live=polite]")).to_contain_text("Concierge: News about Huila")
    waits_for(ada)
    say(ada, "yes please")
    hears(ada, "Order 2 is yours: 3 bags of Huila, €49.50")

    # The bank's webhook, by the command as it is printed.
    waits_for(ada, "Payment: order 2")
    assert " 202 " in shop.pay().splitlines()[0]
    hears(ada, "Order 2: 3 bags of Huila, is on its way to you")
    waits_for(ada)
    expect(ada.locator("#messages .mail summary")).to_have_text(
        [
            "Mail received: Answer from roaster",
            "Mail received: Answer from roaster",
            "Mail received: Approval: refund",
            "Mail received: Answer from roaster",
            "Mail received: Back in stock: huila",
            "Mail received: Payment: order 2",
        ]
    )
    ada.locator("#messages .mail summary").last.click()
    expect(ada.locator("#messages .mail").last).to_contain_text("Order 2 was paid: €49.50.")
    ada.locator("#messages .theirs").last.scroll_into_view_if_needed()
    picture(ada, "told")

    # Who comes back finds the conversation that was open last.
    ada.goto(f"{shop.url}/login")
    hears(ada, "is on its way to you")


def test_what_goes_wrong_on_the_page_is_said(shop, contexts):  # noqa: F811
    ada = sign_in(contexts(), shop, "ada")

    # What is typed before the page's script has come is kept until it can be sent.
    held = []
    ada.route("**/talk*.js", lambda route: held.append(route))
    ada.goto(shop.url, wait_until="commit")
    ada.fill("#text", "too early")
    ada.press("#text", "Control+Enter")
    expect(ada.locator("#send")).to_be_disabled()
    expect(ada.locator("#hint")).to_contain_text("Loading")
    held[0].continue_()
    ada.unroute("**/talk*.js")
    expect(ada.locator("#send")).to_be_enabled()
    expect(ada.locator("#text")).to_have_value("too early")
    expect(ada.locator("#hint")).to_contain_text("Enter sends")

    # Text is text.
    say(ada, "<img src=x onerror=alert(1)> [x](javascript:alert(1))")
    expect(ada.locator("#messages .mine .words")).to_have_text("<img src=x onerror=alert(1)> [x](javascript:alert(1))")
    expect(ada.locator("#messages img, #messages a")).to_have_count(0)
    hears(ada, "That is beyond me.")

    # Shift and Enter make a line, Enter sends; blank text is not sent; too long is said before it is sent.
    ada.type("#text", "one")
    ada.press("#text", "Shift+Enter")
    ada.type("#text", "hello")
    ada.press("#text", "Enter")
    expect(ada.locator("#messages .mine .words").last).to_have_text("one\nhello")
    ada.fill("#text", "   ")
    ada.press("#text", "Enter")
    ada.fill("#text", "é" * 32769)
    expect(ada.locator("#problem")).to_contain_text("Too long by 2 bytes")
    expect(ada.locator("#send")).to_be_disabled()
    ada.fill("#text", "")
    expect(ada.locator("#messages .mine")).to_have_count(2)

    # Sent while the connection is gone: said, and sent again once, not twice, though the first try had arrived.
    ada.route("**/messages", lambda route: route.abort() if route.request.method == "POST" else route.continue_())
    say(ada, "thanks")
    failed = ada.locator("#messages .failed")
    expect(failed).to_contain_text("not sent")
    expect(failed).to_contain_text("The server cannot be reached.")
    ada.unroute("**/messages")
    lose_the_answer(ada)
    failed.get_by_role("button", name="Send again").click()
    expect(failed).to_contain_text("not sent")
    ada.unroute("**/messages")
    failed.get_by_role("button", name="Send again").click()
    expect(failed).to_have_count(0)
    hears(ada, "You are welcome.")
    expect(ada.get_by_text("thanks", exact=True)).to_have_count(1)

    # A closed conversation says so; its address stays, a new one begins.
    ada.get_by_role("button", name="Close conversation").click()
    expect(ada.locator("#closed")).to_be_visible()
    expect(ada.locator("#composer")).to_be_hidden()
    ada.locator("#new-after-close").click()
    expect(ada.locator("#text")).to_be_focused()
    say(ada, "hello")
    hears(ada, "scripted concierge")
    expect(ada.locator("#conversations li")).to_have_count(2)
    ada.go_back()
    ada.go_back()
    expect(ada.locator("#closed")).to_be_visible()
    ada.goto(f"{shop.url}/#999999")
    expect(ada.locator("#banner")).to_contain_text("does not exist, or is not yours")

    # The session ends: said, and the draft is there after the next sign-in.
    ada.fill("#text", "a long thought")
    ada.context.clear_cookies()
    expect(ada.locator("#banner")).to_contain_text("Your session has ended.", timeout=NEWS_S)
    ada.get_by_role("link", name="Sign in again").click()
    ada.fill("#id_username", "ada")
    ada.fill("#id_password", "wrong")
    ada.press("#id_password", "Enter")
    expect(ada.get_by_role("alert")).to_contain_text("The name or the password is wrong")
    ada.fill("#id_password", shop.passwords["ada"])
    ada.press("#id_password", "Enter")
    expect(ada.locator("#text")).to_have_value("a long thought")
    ada.get_by_role("button", name="Sign out").click()
    expect(ada).to_have_url(f"{shop.url}/login")

    # It is there for her, behind what she has typed too early by then, and not for who signs in at her screen.
    boss = sign_in(ada, shop, "boss", "/login")
    boss.goto(shop.url)
    expect(boss.locator("#send")).to_be_enabled()
    expect(boss.locator("#text")).to_have_value("")
    boss.get_by_role("button", name="Sign out").click()
    ada.route("**/talk*.js", lambda route: held.append(route))
    ada.fill("#id_username", "ada")
    ada.fill("#id_password", shop.passwords["ada"])
    ada.press("#id_password", "Enter", no_wait_after=True)
    ada.fill("#text", "and another")
    held[1].continue_()
    ada.unroute("**/talk*.js")
    expect(ada.locator("#text")).to_have_value("a long thought\nand another")


def lose_the_answer(page: Page) -> None:
    """The next POST of a message arrives, and its answer does not."""

    def lose(route):
        if route.request.method == "POST":
            route.fetch()
            route.abort()
        else:
            route.continue_()

    page.route("**/messages", lose)
