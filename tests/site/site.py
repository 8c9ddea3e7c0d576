"""The site as an operator runs it: web, worker and beat as processes of their own."""

import json
import sys
import urllib.error
import urllib.request

from django.contrib.auth import get_user_model
from django.db import connections

from inbox.services.keys import create_key

CELERY = [sys.executable, "-m", "celery", "-A", "glove_site"]
PRODUCTION = {
    "DEBUG": "0",
    "DJANGO_SETTINGS_MODULE": "tests.storm.settings",
    "GLOVE_WORKER_THREADS": "4",
    # Short, so that what a lost bell or worker delays is seen within seconds.
    "GLOVE_LEASE_S": "3",
    "GLOVE_SWEEP_EVERY_S": "2",
    "GLOVE_RING_AGAIN_S": "3",
}


def start_worker(start, env):
    worker = start("worker", "-P", "threads", env={**env}, command=CELERY)
    worker.wait_for(" ready.")
    return worker


def start_beat(start, env):
    return start("beat", env={**env}, command=CELERY)


class Caller:
    """A superuser with a key, who calls the web process."""

    def __init__(self, url):
        self.url = url
        user = get_user_model().objects.create_superuser("ada")
        self.key = create_key(user, "tests")[1]
        connections.close_all()

    def __call__(self, method, path, body=None):
        request = urllib.request.Request(
            f"{self.url}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from error

    def open(self):
        return self("POST", "/conversations", {"agent": "storm"})["id"]

    def say(self, conversation, text):
        return self("POST", f"/conversations/{conversation}/messages", {"text": text})

    def replies(self, conversation):
        messages = self("GET", f"/conversations/{conversation}/messages?limit=200")["items"]
        return [message["text"] for message in messages if message["sender"] == "agent"]

    def item(self, tag):
        """The one item with this tag, or None."""
        found = self("GET", f"/inbox/items?tag={tag}")["items"]
        assert len(found) < 2, found
        return found[0] if found else None

    def resolve(self, item, response):
        return self("POST", f"/inbox/items/{item['id']}/resolve", {"response": response})

    def turns(self, conversation):
        return self("GET", f"/conversations/{conversation}/turns")["items"]
