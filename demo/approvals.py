"""What people really answered: asked of the inbox's rows, never of what a model says.

An approval is an item of the customer's own mailbox with the tag `approval:refund`, whose first line says what is to be
approved, answered by a person, with a plain yes. A yes with a condition is not plain: it needs a reader.
"""

import re
from typing import Any

from demo.errors import NotApproved
from demo.models import Refund
from inbox.models import Item
from inbox.text import first_line

TAG = "approval:refund"
PEOPLE = (Item.Via.ADMIN, Item.Via.API, Item.Via.LINK)
_YES = re.compile(r"(yes|ok|okay|sure|approved?|granted|allowed|agreed|go ahead|fine|paid|received)\b", re.IGNORECASE)
_CONDITION = re.compile(
    r"\b(but|only|except|unless|until|if|when|no|not|never|\w+n['’]?t|after|instead|less|half|part\w*)\b|\d",
    re.IGNORECASE,
)


def is_plain_yes(answer: str) -> bool:
    """Whether an answer begins with a word of consent and takes nothing of it back."""
    return bool(_YES.match(answer.strip())) and not _CONDITION.search(answer)


def check(item_id: int, customer: Any, what: str) -> None:
    """Raise NotApproved unless that item approves exactly this for that customer, and was not used before."""
    item = Item.objects.filter(pk=item_id, mailbox__owner=customer, tag=TAG, asked=True).first()
    if item is None:
        raise NotApproved(f"Item {item_id} is not a request for a refund of this customer's.")
    if first_line(item.request).rstrip(".!?") != what:
        raise NotApproved(f"Item {item_id} does not ask for this. Its first line would have to be: {what}")
    if item.outcome != Item.Outcome.ANSWERED or item.resolved_via not in PEOPLE:
        raise NotApproved(f"Item {item_id} was not answered by a person ({item.outcome or item.status}).")
    if not is_plain_yes(item.response):
        raise NotApproved(f"The answer to item {item_id} is not a plain yes: {first_line(item.response)}")
    if Refund.objects.filter(approval=item_id).exists():
        raise NotApproved(f"Item {item_id} has been used for a refund already.")


def says_paid(tag: str, customer: Any) -> bool:
    """Whether a person has answered a request with this tag in the customer's mailbox by saying that it is paid."""
    answers = Item.objects.filter(
        mailbox__owner=customer, tag=tag, asked=True, outcome=Item.Outcome.ANSWERED, resolved_via__in=PEOPLE
    )
    return any(is_plain_yes(answer) for answer in answers.values_list("response", flat=True))
