"""Opening mailboxes."""

from typing import Any

from django.db import IntegrityError, transaction
from django.db.models.functions import Lower

from inbox import tags
from inbox.errors import AddressTaken
from inbox.models import Mailbox


def find_mailbox(address: str) -> Mailbox | None:
    """The mailbox at this address, whatever the case of its letters."""
    return Mailbox.objects.annotate(low=Lower("address")).filter(low=address.lower()).first()


def open_mailbox(address: str, *, agent: str, owner: Any = None) -> Mailbox:
    """The mailbox at this address, made if there is none. Raises BadAddress; AddressTaken where another owner or agent has it."""
    tags.check_address(address)
    mailbox = find_mailbox(address)
    if mailbox is None:
        try:
            with transaction.atomic():
                return Mailbox.objects.create(address=address, agent=agent, owner=owner)
        except IntegrityError:  # somebody opened it meanwhile
            mailbox = find_mailbox(address)
    if mailbox is None or mailbox.owner_id != (owner.pk if owner else None) or mailbox.agent != agent:
        raise AddressTaken
    return mailbox
