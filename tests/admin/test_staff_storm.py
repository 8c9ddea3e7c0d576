"""Twenty of staff over real HTTP on three hundred requests: none is answered twice, and every loser is told."""

import random
import re
import threading
import time
from collections import Counter

import httpx2
import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from inbox.models import Item
from tests.admin import world

ITEMS, PEOPLE, AT_MOST_S = 300, 20, 400

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, pytest.mark.timeout(600)]


class Member:
    """One of staff, who takes what the queue offers, some one by one, some many at once, until nothing is left."""

    def __init__(self, number, url):
        self.name = f"staff{number}"
        self.draw = random.Random(number)
        self.url = url
        self.won, self.told, self.faults = set(), Counter(), []
        client = Client()
        client.force_login(world.person(self.name, "resolver", "billing"))
        self.session = client.cookies["sessionid"].value

    def work(self, gate):
        try:
            with httpx2.Client(base_url=self.url, cookies={"sessionid": self.session}, timeout=60) as self.http:
                gate.wait()
                until = time.monotonic() + AT_MOST_S
                while time.monotonic() < until and (ids := self.offered()):
                    if self.draw.random() < 0.3:
                        self.answer_many(self.draw.sample(ids, min(5, len(ids))))
                    else:
                        self.answer_one(self.draw.choice(ids[:6]))
        except Exception as error:
            self.faults.append(repr(error))

    def offered(self):
        return [int(pk) for pk in re.findall(r'name="id"\s+value="(\d+)"', self.http.get("/admin/inbox/item/").text)]

    def post(self, address, **sent):
        return self.http.post(address, data={"csrfmiddlewaretoken": self.http.cookies["csrftoken"], **sent})

    def answer_one(self, pk):
        address = f"/admin/inbox/item/{pk}/change/"
        self.http.get(address)
        typed = f"By {self.name}, number {pk}."
        answer = self.post(address, action="resolve", response=typed)
        self.told[answer.status_code] += 1
        if answer.status_code == 302:
            self.won.add(pk)
        elif answer.status_code != 409 or typed not in answer.text or "was closed before you" not in answer.text:
            self.faults.append(f"{pk}: {answer.status_code}")

    def answer_many(self, ids):
        self.http.get("/admin/inbox/item/bulk/", params={"id": ids})
        answer = self.post("/admin/inbox/item/bulk/", id=ids, response=f"By {self.name}, many.")
        fates = re.findall(r'class="fate-(\w+)".*?/admin/inbox/item/(\d+)/change/', answer.text, re.DOTALL)
        if answer.status_code != 200 or sorted(int(pk) for _, pk in fates) != sorted(ids):
            self.faults.append(f"{ids}: {answer.status_code}")
        self.won.update(int(pk) for fate, pk in fates if fate == "resolved")
        self.told.update(fate for fate, _ in fates)


def test_none_is_answered_twice(transactional_db, live_server):
    world.company()
    Item.objects.filter(status="pending").update(
        status="consumed", outcome="withdrawn", resolved_at=world.timezone.now(), consumed_at=world.timezone.now()
    )
    boxes = [world.mailbox(f"concierge/c{index}") for index in range(15)]
    Item.objects.bulk_create(
        Item(mailbox=boxes[index % 15], tag="approval:storm", request=f"Request {index}?") for index in range(ITEMS)
    )
    people = [Member(number, live_server.url) for number in range(PEOPLE)]
    gate = threading.Barrier(PEOPLE)
    threads = [threading.Thread(target=member.work, args=(gate,)) for member in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(AT_MOST_S + 60)
    assert [fault for member in people for fault in member.faults] == []
    claimed = Counter(pk for member in people for pk in member.won)
    items = {item.pk: item for item in Item.objects.filter(tag="approval:storm")}
    assert {item.status for item in items.values()} == {"resolved"}
    assert claimed == dict.fromkeys(items, 1)
    for member in people:
        assert {items[pk].resolved_by for pk in member.won} <= {member.name}
    logged = LogEntry.objects.filter(object_id__in=[str(pk) for pk in items])
    assert sorted(int(entry.object_id) for entry in logged) == sorted(items)
    told = sum((member.told for member in people), Counter())
    assert told[409] > 0  # they did meet
    assert told["closed"] > 0
