"""`manage.py demo`: passwords once, a second run changes nothing, never without DEBUG=1."""

import io
import re
import subprocess
import sys

import pytest
from django.contrib.auth import authenticate, get_user_model
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command

from demo import payments
from demo.models import Order
from inbox import access
from inbox.models import Item, Mailbox, TagGroup
from tests.environment import ROOT

pytestmark = pytest.mark.one_database

PASSWORD = r"(?:[a-km-np-z2-9]{4}-){2}[a-km-np-z2-9]{4}"


@pytest.fixture
def demo(db, stock_file, settings):
    settings.DEBUG = True  # pytest-django switches it off

    def run(*words):
        out = io.StringIO()
        call_command("demo", *words, stdout=out)
        return out.getvalue()

    return run


def passwords_in(output):
    return dict(re.findall(rf"^  (\w+) +({PASSWORD}) ", output, re.MULTILINE))


def test_the_first_run_prints_passwords_that_work(demo):
    found = passwords_in(demo())
    assert set(found) == {"ada", "barista", "boss"}
    users = {name: authenticate(username=name, password=password) for name, password in found.items()}
    assert [(user.is_staff, user.is_superuser) for user in users.values()] == [
        (False, False),
        (True, False),
        (True, True),
    ]
    assert len(set(found.values())) == 3


def test_the_second_run_changes_nothing_and_says_how_to_get_new_passwords(demo):
    first = passwords_in(demo())
    rows = list(get_user_model().objects.order_by("pk").values()), Order.objects.count(), TagGroup.objects.count()
    again = demo()
    assert not passwords_in(again)
    assert "manage.py demo --reset-passwords" in again
    assert rows == (
        list(get_user_model().objects.order_by("pk").values()),
        Order.objects.count(),
        TagGroup.objects.count(),
    )
    assert authenticate(username="ada", password=first["ada"])


def test_new_passwords_take_the_place_of_the_old(demo):
    old, new = passwords_in(demo()), passwords_in(demo("--reset-passwords"))
    assert set(new) == set(old)
    for name in new:
        assert authenticate(username=name, password=new[name])
        assert not authenticate(username=name, password=old[name])


def test_a_changed_installation_is_left_as_it_is(demo):
    """A user of that name who was there before gets no rights, an emptied tag group stays empty."""
    get_user_model().objects.create_user("boss")
    demo()
    assert not get_user_model().objects.get(username="boss").is_superuser
    group = Group.objects.get(name="baristas")
    group.permissions.clear()
    TagGroup.objects.get().groups.clear()
    demo()
    assert not group.permissions.exists()
    assert not TagGroup.objects.get().groups.exists()


def test_the_barista_answers_and_the_customer_does_not(demo):
    demo()
    ada, barista = (get_user_model().objects.get(username=name) for name in ("ada", "barista"))
    mailbox = Mailbox.objects.create(address="concierge/ada", owner=ada, agent="concierge")
    for tag in ("approval:refund", "restock:huila", "pay:2"):
        item = Item.objects.create(mailbox=mailbox, tag=tag, request="r")
        assert access.may_resolve(barista, item)
        assert access.may_see(ada, item)
        assert not access.may_resolve(ada, item)


def test_it_prints_the_banks_command_for_what_is_to_be_paid(demo):
    output = demo("--port", "8123")
    assert Order.objects.get().paid_at  # ada's first order, which can be refunded
    assert payments.curl_line("http://127.0.0.1:8123", Order.objects.get().pk + 1) in output
    for number in range(5):
        Order.objects.create(
            customer=get_user_model().objects.get(username="ada"),
            sku="s",
            name="n",
            bags=1,
            total_cents=1,
            key=f"k{number}",
        )
    lines = [line for line in demo().splitlines() if line.startswith("curl ")]
    assert lines == [
        payments.curl_line("http://127.0.0.1:8000", order.pk) for order in Order.objects.order_by("-pk")[:3]
    ]


def test_public_url_wins_over_the_port(demo, settings, monkeypatch):
    monkeypatch.setenv("PUBLIC_URL", "https://shop.example")
    settings.PUBLIC_URL = "https://shop.example"
    assert "https://shop.example/hooks/payments" in demo("--port", "8123")


def test_without_a_stock_file_there_are_people_but_no_order(demo, stock_file):
    stock_file.unlink()
    output = demo()
    assert "Ada's first order could not be made. The stock file" in output
    assert set(passwords_in(output)) == {"ada", "barista", "boss"}
    assert not Order.objects.exists()


def test_it_refuses_without_debug(db, stock_file, settings):
    settings.DEBUG = False
    with pytest.raises(CommandError, match="only with DEBUG=1"):
        call_command("demo")
    assert not get_user_model().objects.exists()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"DEBUG": "0"}, "The demo is switched off: it needs DEBUG=1"),
        ({"DEBUG": "1", "GLOVE_DEMO": "0"}, "The demo is switched off"),
        ({"DEBUG": "0", "GLOVE_DEMO": "1"}, "runs only with DEBUG=1"),
        ({"DEBUG": "1", "DATABASE_URL": "sqlite:///{tmp}/empty.sqlite3"}, "manage.py migrate"),
    ],
)
def test_as_an_operator_meets_it(child_environment, tmp_path, changes, says):
    changes = {name: value.replace("{tmp}", str(tmp_path)) for name, value in changes.items()}
    done = subprocess.run(
        [sys.executable, "manage.py", "demo"],
        cwd=ROOT, env={**child_environment, **changes}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not done.stdout
