"""docs/how-to/mesh.md is run as it is printed: its agents are declared, its commands are typed into a shell, on a served site."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass

import pytest

from tests.demo.shop import ROASTS, STOCK, Installation
from tests.environment import ROOT

PAGE = (ROOT / "docs" / "how-to" / "mesh.md").read_text()

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@dataclass
class Newsroom(Installation):
    """The demo's installation, with the app that the page makes."""

    @property
    def environment(self):
        return {**super().environment, "GLOVE_APPS": "newsroom", "PYTHONPATH": str(self.folder)}


@pytest.fixture
def newsroom(start, free_port, tmp_path):
    app = tmp_path / "newsroom"
    app.mkdir()
    (app / "__init__.py").touch()
    (app / "glove.py").write_text(re.search(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1])
    site = Newsroom(start, tmp_path, free_port)
    site.stock.write_text(STOCK)
    site.roasts.write_text(ROASTS)
    site.serve()
    site.demo()
    return site


def commands(site):
    """Each command of the page, with what it printed; the second part waits until there is something to read."""
    first, second = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    typed = [line[2:] for block in (first, second) for line in block.replace("\\\n", " ").splitlines()]
    assert all(line.startswith("$ ") for block in (first, second) for line in block.replace("\\\n", " ").splitlines())
    there = 'curl -s -H "Authorization: Bearer $KEY" $API/messages | grep -q in_reply_to'
    wait = f"for _ in $(seq 100); do {there} && break; sleep 0.2; done"
    typed.insert(4, wait)
    script = "set -e\n" + "\n".join(f"echo; echo '--- {n}'; {line}" for n, line in enumerate(typed))
    script = script.replace(".venv/bin/python", sys.executable).replace("http://127.0.0.1:8000", site.url)
    done = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, env=site.environment, capture_output=True, text=True, check=False, timeout=90
    )
    assert done.returncode == 0, done.stderr
    return [part.strip() for part in re.split(r"^--- \d+$", done.stdout, flags=re.MULTILINE)][1:]


def test_the_page_works_as_it_is_printed(newsroom):
    _, _, peers, sent, _, received, _, acknowledged = commands(newsroom)
    assert {peer["name"] for peer in json.loads(peers)["items"]} == {"checker", "roaster"}
    sent = json.loads(sent)
    assert [receipt["to"] for receipt in sent["deliveries"]] == ["roaster"]
    (answer,) = json.loads(received)["items"]
    assert (answer["sender"], answer["in_reply_to"]) == ("roaster", sent["id"])
    assert answer["content"].startswith("Next roast: ")
    acknowledged = json.loads(acknowledged)
    assert acknowledged["id"] == answer["id"]
    (receipt,) = acknowledged["deliveries"]
    assert (receipt["note"], receipt["read_at"] is not None) == ("Printed.", True)
    checked = newsroom.command("check")
    assert checked.returncode == 0, checked.stderr


def test_its_links_and_pictures_are_there():
    page = ROOT / "docs" / "how-to" / "mesh.md"
    found = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", PAGE) + re.findall(r'src="([^"]+)"', PAGE)
    assert len(found) > 4
    for link in found:
        assert (page.parent / link).exists(), link
        assert not link.endswith(".png") or (page.parent / link).stat().st_size < 150_000
