"""README's example is run as it is printed, and its story says what the code says."""

import re
import subprocess
import sys

import pytest

from demo import orders
from tests.environment import ROOT

README = (ROOT / "README.md").read_text()

PLAY = """
import pathlib, django
django.setup()
from django.contrib.auth import get_user_model
from agents.models import Message, Turn
from agents.services import conversations, turns
from inbox.services import resolvers

talk = conversations.open_for(get_user_model().objects.create_user("reader"), "librarian")

def run():
    for pk in Turn.objects.filter(status="queued").values_list("pk", flat=True):
        turns.start(pk)
    print(Message.objects.filter(sender="agent").order_by("place").last().text)

for line in {lines!r}:
    conversations.say(talk.pk, line)
    run()
pathlib.Path("returned.txt").write_text("Dune\\n")
resolvers.run_resolver("returned")
run()
"""


def block(language):
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    return found


@pytest.mark.django_db(transaction=True)
def test_the_example_works_as_it_is_printed(child_environment, tmp_path):
    library = tmp_path / "library"
    library.mkdir()
    (library / "__init__.py").touch()
    (library / "glove.py").write_text(block("python"))
    lines = re.findall(r"say `(find_book .*?)`, then `(ask .*?)`", README, re.DOTALL)[0]
    environment = {
        **child_environment,
        "GLOVE_APPS": "library",
        "PYTHONPATH": f"{tmp_path}:{ROOT}",
        "DJANGO_SETTINGS_MODULE": "glove_site.settings",
    }
    done = subprocess.run(
        [sys.executable, "-c", PLAY.replace("{lines!r}", repr(lines))],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "Dune is lent out. Post a request with the tag returned:<title in small letters> to be told when it is back.",
        "Asked. I will write to you here when the answer comes.",
        "The answer to “Is Dune back?” came (answered by returned (cron)): dune is back.",
    ]


def test_the_commands_are_there():
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{command}:", makefile, re.MULTILINE)


def test_links_lead_somewhere():
    for page in (ROOT / "README.md", ROOT / "docs" / "how-to" / "first-agent.md"):
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), link


def test_the_story_is_the_one_that_the_browser_test_plays():
    story = (ROOT / "tests" / "browser" / "test_story.py").read_text()
    told = ("order 3 bags of Huila", "what is 2+2?", "refund order 1", "Back in stock: huila", "Resolve and wake")
    for said in (*told, "when is the next roast of decaf?", "Answer from roaster", "decaf,Friday,8"):
        assert said in README
        assert said in story
    assert orders.money(orders.REFUND_LIMIT_CENTS) in README
