"""What a webhook changes: the event's receipt and the answers, in one transaction."""

from django.db import IntegrityError, transaction

from inbox import tags
from inbox.models import Item, WebhookReceipt
from inbox.services import items


def is_known(hook: str, event_id: str | None) -> bool:
    """Whether this event has had its effect."""
    return event_id is not None and WebhookReceipt.objects.filter(hook=hook, event_id=event_id).exists()


def take(hook: str, event_id: str | None, answer: tuple[str, str] | None) -> list[int]:
    """Resolve the pending items with exactly the answer's tag, or keep the answer for a request that is still to come; remember
    the event. Returns the items' ids: none for an event that was known already. Raises BadTag and the errors of text.check."""
    if answer is not None:
        tags.check_tag(answer[0])
    try:
        with transaction.atomic():
            if event_id is not None:
                WebhookReceipt.objects.create(hook=hook, event_id=event_id)
            if answer is None:
                return []
            return items.resolve_tag(*answer, by=hook, via=Item.Via.WEBHOOK)
    except IntegrityError:
        if is_known(hook, event_id):
            return []
        raise
