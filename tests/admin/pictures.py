"""Pictures for docs/desk.md, taken by the tests of the pages when GLOVE_TEST_PICTURES=1."""

import os
from pathlib import Path

from tests.environment import ROOT

FOLDER = Path(ROOT, "docs", "img", "desk")
WANTED = os.environ.get("GLOVE_TEST_PICTURES") == "1"
SIZES = {"wide": (1280, 900), "narrow": (390, 844)}
SCHEMES = ("light", "dark")


def fits(page, what: str) -> None:
    """Nothing is over the edge of the page as it is now; on a telephone, nothing over the edge of a list either."""
    over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert over <= 0, f"{what} is {over} px over the edge"
    if page.viewport_size["width"] == SIZES["narrow"][0]:
        cut = page.evaluate(
            "Math.max(0, ...[...document.querySelectorAll('.results')].map(e => e.scrollWidth - e.clientWidth))"
        )
        assert cut == 0, f"the list of {what} is cut off by {cut} px"


def shoot(page, name: str) -> None:
    """The page as it is now, at each size and in each scheme; nothing is over the edge."""
    before = page.viewport_size
    for size, (width, height) in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            fits(page, f"{name} at {width} px")
            if WANTED:
                FOLDER.mkdir(parents=True, exist_ok=True)
                page.screenshot(path=FOLDER / f"{name}-{size}-{scheme}.png", full_page=True, animations="disabled")
    page.set_viewport_size(before)
    page.emulate_media(color_scheme="light")
