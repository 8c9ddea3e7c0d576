"""The mesh's pages of the admin in a real browser, wide and narrow, light and dark: nothing is blocked, nothing runs over the edge.

With GLOVE_TEST_PICTURES=1 those that docs/how-to/mesh.md shows are written to docs/img/mesh.
"""

from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from agents import Agent, registry
from agents.models import Turn
from agents.services import turns
from glove_site.roles import set_up_roles
from mesh.errors import TooManyHops
from mesh.models import Delivery, Peer, StoppedChain
from mesh.services import answering, chains, joining, leaving, sending
from mesh.services.sending import From
from tests.admin import world
from tests.admin.pictures import SCHEMES, SIZES, WANTED, fits
from tests.environment import ROOT
from tests.mesh.kit import public_peer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

FOLDER = Path(ROOT, "docs", "img", "mesh")
SHOWN = {("message", "wide", "light"), ("dead-delivery", "wide", "light"), ("stopped-chain", "narrow", "dark")}
BRIEF = "Who can have the chapter on brewing done by Friday?\n\nTwo thousand words, for people who have never ground a bean."


@pytest.fixture
def company(transactional_db, settings, monkeypatch):
    """A newsroom: a desk that asks, writers who answer, one that is away, a program outside; and a chain that was stopped."""
    monkeypatch.setattr("agents.bell.ring", lambda *args, **kwargs: True)
    script = {"BACKEND": "agents.adapters.scripted.ScriptedModel", "OPTIONS": {"script": lambda *given: "Read."}}
    settings.AGENT_MODELS = {"default": script}
    set_up_roles()
    olga = world.person("olga", "operator")
    with registry.isolated():
        Agent(
            "writer", instructions="Write.", mesh=True, capabilities=["write"], description="Writes chapters to order."
        )
        desk, ann, ben, cleo = (
            public_peer(name, agent="writer") for name in ("desk", "writer/ann", "writer/ben", "writer/cleo")
        )
        joining.register_outside(olga, "printer@press.example", description="Prints, when it is done.", public=True)
        for peer in (ann, ben):
            leaving.subscribe(olga, peer.pk, "brewing")
        yield {"olga": olga, **story(desk, ann, ben, cleo), "desk": desk, "ann": ann}


def story(desk, ann, ben, cleo):
    question = sending.broadcast(From(desk), BRIEF, blocking=True, quorum=2).message
    answering.acknowledge(ann, question.pk, "I can, if Ben checks the figures.")
    sending.send(From(ben), "desk", "Then I check them, on Thursday night.", in_reply_to=question.pk)
    turns.start(Turn.objects.get(conversation__mailbox=ann.mailbox_id).pk)  # reads it
    lost = sending.send(From(desk), "writer/cleo", "And you, Cleo? You have not said anything.").message
    Delivery.objects.filter(message=lost).update(
        status="dead", reason="the recipient is retired", delivered_at=None, item=None
    )
    place = chains.Place(question.root, 9)
    try:
        chains.check_budget(place, ann, "Thank you so much for thanking me! \u202eSee you <b>soon</b>.")
    except TooManyHops as error:
        error.remember()
    return {"question": question, "dead": Delivery.objects.get(message=lost), "chain": StoppedChain.objects.get()}


def pages(company):
    at = lambda name, *args: reverse(f"admin:{name}", args=args)  # noqa: E731
    return [
        ("home", at("index")),
        ("peers", at("mesh_peer_changelist")),
        ("peers-filtered", at("mesh_peer_changelist") + "?retired=no&public__exact=1"),
        ("peer", at("mesh_peer_change", company["ann"].pk)),
        ("peer-outside", at("mesh_peer_change", Peer.objects.get(mailbox__address__contains="@").pk)),
        ("peer-new", at("mesh_peer_add")),
        ("peer-retire", at("mesh_peer_retire", company["ann"].pk)),
        ("peer-topic", at("mesh_peer_subscribe", company["ann"].pk)),
        ("messages", at("mesh_message_changelist")),
        ("message", at("mesh_message_change", company["question"].pk)),
        ("deliveries", at("mesh_delivery_changelist") + "?attention=yes"),
        ("dead-delivery", at("mesh_delivery_change", company["dead"].pk)),
        ("send-again", at("mesh_delivery_again", company["dead"].pk)),
        ("stopped-chains", at("mesh_stoppedchain_changelist") + "?seen=no"),
        ("stopped-chain", at("mesh_stoppedchain_change", company["chain"].pk)),
    ]


@pytest.mark.timeout(300)
def test_every_page_fits_and_runs_under_the_policy(company, live_server, browser, tmp_path):
    faults = []
    context = browser.new_context(base_url=live_server.url, viewport={"width": 1280, "height": 900})
    context.add_cookies([cookie_of(company["olga"], live_server.url)])
    page = context.new_page()
    page.on("console", lambda message: message.type == "error" and faults.append((page.url, message.text)))
    page.on("pageerror", lambda error: faults.append((page.url, str(error))))
    for name, address in pages(company):
        assert page.goto(address).status == 200, name
        shoot(page, name, tmp_path)
    context.close()
    assert not faults


def cookie_of(user, url):
    client = Client()
    client.force_login(user)
    return {"name": "sessionid", "value": client.cookies["sessionid"].value, "url": url}


def shoot(page, name, elsewhere):
    for size, (width, height) in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            fits(page, f"{name} at {width} px")
            wanted = WANTED and (name, size, scheme) in SHOWN
            folder = FOLDER if wanted else elsewhere
            folder.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=folder / f"{name}-{size}-{scheme}.png", full_page=True, animations="disabled")
