"""Hundreds of thousands of messages and peers: no statement of the mesh reads more than a small part of them.

With GLOVE_TEST_MESSAGES=1000000 a million, which takes two minutes to fill in."""

import os
import re

import pytest
from django.db import connection
from django.test import Client

from agents.models import Message as Entry
from mesh.models import Delivery, Message
from mesh.services import answering, delivering, leaving, peers, sending
from mesh.services.sending import From
from tests.api.kit import by_key, person
from tests.database import filling
from tests.factories import ConversationFactory, UserFactory
from tests.mesh.kit import public_peer

MESSAGES = int(os.environ.get("GLOVE_TEST_MESSAGES", "200000"))
PEERS = 100_000
LARGE = ("mesh_message", "mesh_delivery", "mesh_peer", "inbox_item", "agents_message", "inbox_mailbox")
MOST = 5_000  # rows that a statement may pass over

pytestmark = [pytest.mark.django_db, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(600)]

# Everybody's agent has a peer. A handful of them write everything, to a handful; a few letters are dead, blocking, broadcast.
FILL = f"""
INSERT INTO auth_user (username, password, first_name, last_name, email, is_staff, is_superuser, is_active, date_joined)
    SELECT 'u' || n, '', '', '', '', false, false, true, now() FROM generate_series(1, {PEERS}) n;
INSERT INTO inbox_mailbox (address, agent, owner_id, created_at)
    SELECT 'worker/u' || n, 'worker', (SELECT id FROM auth_user WHERE username = 'u' || n), now()
    FROM generate_series(1, {PEERS}) n;
INSERT INTO mesh_peer (mailbox_id, description, metadata, public, declared, created_at)
    SELECT id, '', '{{}}', false, false, now() FROM inbox_mailbox WHERE address LIKE 'worker/u%';
INSERT INTO mesh_message (id, kind, sender_id, content, blocking, quorum, topic, capability, root, hops, created_at)
    SELECT '01900000-' || lpad(to_hex(n), 4, '0') || '-7' || lpad(to_hex(n % 4096), 3, '0') || '-8000-' || lpad(to_hex(n), 12, '0'),
           CASE WHEN n % 5000 = 0 THEN 'broadcast' ELSE 'direct' END, ids.few[1 + n % 10], 'Message ' || n, n % 5000 = 1, 1, '',
           '', '01900000-0000-7000-8000-' || lpad(to_hex(n / 5), 12, '0'), n % 5, now() - n * interval '1 second'
    FROM generate_series(1, {MESSAGES}) n,
         (SELECT array_agg(p.id) AS few FROM (SELECT id FROM mesh_peer ORDER BY id LIMIT 10) p) ids;
INSERT INTO inbox_item (mailbox_id, tag, request, response, status, outcome, blocking, asked, wakes, rung, created_at, resolved_at,
                        resolved_by, resolved_via, consumed_at)
    SELECT ids.few[1 + n % 10], 'mesh:from:a', 'Message', 'Message ' || n, 'consumed', 'answered', false, false, true, true, now(),
           now(), 'a', 'mesh', now()
    FROM generate_series(1, {MESSAGES}) n,
         (SELECT array_agg(p.mailbox_id) AS few FROM (SELECT mailbox_id FROM mesh_peer ORDER BY id LIMIT 10) p) ids;
INSERT INTO mesh_delivery (message_id, sender_id, recipient_id, item_id, status, reason, ack_note, created_at, delivered_at)
    SELECT m.id, m.sender_id, ids.few[1 + m.n % 9], CASE WHEN m.n % 5000 = 2 THEN NULL ELSE i.id END,
           CASE WHEN m.n % 5000 = 2 THEN 'dead' ELSE 'delivered' END, CASE WHEN m.n % 5000 = 2 THEN 'lost' ELSE '' END, '', now(),
           CASE WHEN m.n % 5000 = 2 THEN NULL ELSE now() END
    FROM (SELECT id, sender_id, row_number() OVER (ORDER BY id) n FROM mesh_message) m
    JOIN (SELECT id, row_number() OVER (ORDER BY id) n FROM inbox_item) i ON i.n = m.n,
         (SELECT array_agg(p.id ORDER BY p.id) AS few FROM (SELECT id FROM mesh_peer ORDER BY id LIMIT 10) p) ids;
"""


class Plans:
    """Runs what it is asked to, and keeps the plan of each statement with what it read."""

    def __init__(self):
        self.found = []

    def of(self, name, act):
        def explained(execute, sql, params, many, context):
            if sql.lstrip().startswith(("SELECT", "UPDATE", "WITH")) and "EXPLAIN" not in sql:
                with context["connection"].connection.cursor() as cursor:
                    cursor.execute("SAVEPOINT plan")
                    cursor.execute(f"EXPLAIN (ANALYZE, TIMING OFF) {sql}", params)
                    self.found.append((name, sql, [line for (line,) in cursor.fetchall()]))
                    cursor.execute("ROLLBACK TO SAVEPOINT plan")
            return execute(sql, params, many, context)

        with connection.execute_wrapper(explained):
            return act()


def check(name, sql, plan):
    passed = [int(rows) for line in plan for rows in re.findall(r"Rows Removed by \w+(?: \w+)?: (\d+)", line)]
    read = [
        int(found[1]) * int(found[2])
        for line in plan
        if any(f"on {table} " in line for table in LARGE)
        and (found := re.search(r"actual rows=(\d+) loops=(\d+)", line))
    ]
    assert max(passed + read, default=0) < MOST, (name, sql, plan)


def test_many_messages_among_many_peers(worker, db):
    """One test, since filling the tables takes longer than all of its questions."""
    with filling("auth_user", *LARGE) as cursor:
        for statement in FILL.split(";\n"):
            if statement.strip():
                cursor.execute(statement)
    busy = peers.peer_of(Delivery.objects.order_by("pk")[0].recipient.mailbox_id)
    partner = peers.peer_of(Delivery.objects.filter(recipient=busy).order_by("-pk")[0].sender.mailbox_id)
    planner, roaster = public_peer("planner"), public_peer("roaster")
    conversation = ConversationFactory(mailbox=busy.mailbox)
    Entry.objects.bulk_create(
        Entry(conversation=conversation, place=place, sender="agent", text="Old.") for place in range(1, 20_000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE agents_message")
    who = From(busy, conversation.pk)
    plans = Plans()
    message = plans.of("send", lambda: sending.send(who, str(partner), "Well?", blocking=True)).message
    plans.of("send to who wrote", lambda: sending.send(From(planner), "roaster", "Well?"))
    plans.of("reply", lambda: sending.send(From(partner), [], "Well.", in_reply_to=message.pk))
    again = sending.send(who, str(partner), "Well?", blocking=True).message
    plans.of("acknowledge", lambda: answering.acknowledge(partner, again.pk, "Yes."))
    plans.of("whom one sees", lambda: list(peers.visible_to(busy)))
    plans.of("broadcast", lambda: sending.broadcast(who, "All.", blocking=True, quorum="all"))
    plans.of("near misses", lambda: str(peers.unknown(busy, "planer")))
    plans.of("the sweep", delivering.deliver_queued)
    plans.of("retire", lambda: leaving.retire(UserFactory(may=["mesh.manage_mesh"]), roaster.pk))
    key = by_key(person("robot"), "mesh", peer=busy.mailbox)
    for path in ("/mesh/messages", "/mesh/messages?limit=200", f"/mesh/messages/{message.pk}", "/mesh/peers"):
        assert plans.of(path, lambda path=path: key.get(path)).status_code == 200
    staff = Client()
    staff.force_login(UserFactory(is_staff=True, is_superuser=True))
    lists = ["peer/", "message/", "delivery/", "stoppedchain/"]
    filtered = ["message/?kind__exact=broadcast", "message/?blocking__exact=1", "delivery/?status__exact=dead"]
    rows = [
        f"peer/{busy.pk}/change/",
        f"message/{message.pk}/change/",
        f"delivery/{Delivery.objects.first().pk}/change/",
    ]
    for path in (*lists, *filtered, *rows):
        assert plans.of(path, lambda path=path: staff.get(f"/admin/mesh/{path}")).status_code == 200
    assert {name for name, *_ in plans.found} >= {"send", "reply", "acknowledge", "broadcast", *lists, *rows}
    for name, sql, plan in plans.found:
        check(name, sql, plan)
    assert Message.objects.filter(pk=message.pk).exists()
