"""A planner, three writers and a reviewer make a document together, on real Celery workers, one of which is killed on the way."""

import os

import pytest

from agents.models import Message as Entry
from inbox import invariants
from mesh.models import Delivery, Message
from tests.processes import until
from tests.site.site import PRODUCTION, Caller, start_worker

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.postgres,
    pytest.mark.redis,
    pytest.mark.slow,
    pytest.mark.timeout(240),
]
DOCUMENT = "Approved: Text of part 1. Text of part 2. Text of part 3."


def test_the_crew_makes_its_document_though_a_worker_is_killed(
    start, child_environment, tmp_path, free_port, redis_url
):
    journal = tmp_path / "journal"
    environment = {
        **child_environment,
        **PRODUCTION,
        "DJANGO_SETTINGS_MODULE": "tests.mesh.crew.settings",
        "SECRET_KEY": "only-for-tests-" + "x" * 50,
        "REDIS_URL": redis_url,
        "GLOVE_QUEUE": f"crew-{os.getpid()}",
        "CREW_JOURNAL": str(journal),
    }
    start("manage.py", "migrate", "-v", "0", env=environment).wait(60)  # the declared addresses
    first, second = (start_worker(start, environment) for _ in range(2))
    web = start("-m", "uvicorn", "glove_site.asgi:application", "--port", str(free_port), env=environment)
    web.wait_for("Uvicorn running")
    api = Caller(f"http://127.0.0.1:{free_port}")

    conversation = api("POST", "/conversations", {"agent": "planner", "mailbox": "planner"})["id"]
    api.say(conversation, "Make a document about tea.")
    until(lambda: journal.exists() and "part" in journal.read_text(), 60)
    first.kill()  # in the middle of somebody's writing, or of the other's
    third = start_worker(start, environment)
    until(lambda: DOCUMENT in api.replies(conversation), 90)

    for worker in (second, third):
        assert worker.stop() == 0, worker.output
    sent = list(Message.objects.order_by("created_at", "pk").values_list("content", flat=True))
    assert sorted(sent) == sorted(
        [f"Write part {n}." for n in (1, 2, 3)]
        + [f"Part {n} is to be short." for n in (1, 2, 3)]
        + [f"Text of part {n}." for n in (1, 2, 3)]
        + [DOCUMENT.replace("Approved", "Review"), DOCUMENT]
    )
    # Every message stands exactly once in the transcript of its recipient.
    for delivery in Delivery.objects.select_related("message", "recipient"):
        entry = Entry.objects.get(item_id=delivery.item_id)
        assert entry.conversation.mailbox_id == delivery.recipient.mailbox_id
        assert entry.text.count(delivery.message.content) == 1
    # In order per pair: the order before the remark about it.
    for n in (1, 2, 3):
        pair = Entry.objects.filter(conversation__mailbox__address=f"writer/{n}", kind="inbox").order_by("place")
        texts = [entry.text for entry in pair]
        assert f"Write part {n}." in texts[0]
        assert f"Part {n} is to be short." in texts[1]
    assert invariants.breaches() == []
