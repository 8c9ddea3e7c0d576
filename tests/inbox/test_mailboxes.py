"""Addresses: which are accepted, whose they are, and that a mailbox never loses its owner."""

import pytest
from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from inbox.errors import AddressTaken, BadAddress
from inbox.models import Mailbox
from inbox.services.mailboxes import find_mailbox, open_mailbox
from tests.factories import MailboxFactory, UserFactory

pytestmark = pytest.mark.django_db

LOOK_ALIKES = ["Billing", "billing", "Bil\u200bling", "B\u0456lling", "\uff22illing", "Bill\u0131ng", "Bi11ing\u00ad"]


def test_only_the_first_of_look_alikes_is_accepted():
    """Case 34: another case, an invisible character, a Cyrillic letter, a full-width one, a dotless i, a soft hyphen."""
    accepted = []
    for address in LOOK_ALIKES:
        try:
            accepted.append(open_mailbox(address, agent="tester", owner=UserFactory()).address)
        except (AddressTaken, BadAddress):
            continue
    assert accepted == ["Billing"]
    assert Mailbox.objects.count() == 1


@pytest.mark.parametrize("address", ["a", "concierge/ada", "A-Z_a.z@0+9/", "x" * 200])
def test_what_is_an_address(address):
    assert open_mailbox(address, agent="tester").address == address


DOTS = ["concierge/eve/../ada", "./ada", "ada/.", ".."]  # would be eve's, and read as ada's


@pytest.mark.parametrize(
    "address", ["", " ", "a b", "a\n", "\na", "a\x00", "ä", "a:b", "a*", "x" * 201, None, 7, b"a", *DOTS]
)
def test_what_is_none(address):
    with pytest.raises(BadAddress):
        open_mailbox(address, agent="tester")
    assert not Mailbox.objects.exists()


def test_opening_again_is_the_same_mailbox_whatever_the_case():
    ada = UserFactory()
    opened = open_mailbox("concierge/Ada", agent="concierge", owner=ada)
    assert open_mailbox("CONCIERGE/ada", agent="concierge", owner=ada) == opened
    assert opened.address == "concierge/Ada"
    assert find_mailbox("Concierge/ADA") == opened
    assert find_mailbox("concierge/ad") is None


@pytest.mark.parametrize("other", ["owner", "nobody", "agent"])
def test_anothers_address_is_taken(other):
    ada = UserFactory()
    open_mailbox("concierge/ada", agent="concierge", owner=ada)
    claims = {
        "owner": {"agent": "concierge", "owner": UserFactory()},
        "nobody": {"agent": "concierge", "owner": None},
        "agent": {"agent": "planner", "owner": ada},
    }
    with pytest.raises(AddressTaken):
        open_mailbox("concierge/ada", **claims[other])


def test_the_database_keeps_addresses_apart_too():
    MailboxFactory(address="planner")
    for bad in ("Planner", "pla nner", "plänner", ""):
        with pytest.raises(IntegrityError), transaction.atomic():
            Mailbox.objects.create(address=bad, agent="tester")


def test_a_user_with_a_mailbox_cannot_be_deleted():
    """Or it would have no owner, and be anybody's to read."""
    ada = UserFactory()
    mailbox = open_mailbox("concierge/ada", agent="concierge", owner=ada)
    with pytest.raises(ProtectedError):
        ada.delete()
    with pytest.raises(ProtectedError):
        get_user_model().objects.filter(pk=ada.pk).delete()
    assert Mailbox.objects.get(pk=mailbox.pk).owner_id == ada.pk


@pytest.mark.django_db(transaction=True)
def test_an_address_that_many_open_at_once_is_one_mailbox(race):
    ada = UserFactory()
    spelled = ["concierge/ada", "Concierge/Ada", "CONCIERGE/ADA"]
    finish = race(9, lambda n: open_mailbox(spelled[n % 3], agent="concierge", owner=ada).pk)
    assert not finish.errors
    assert len(set(finish.results)) == 1
