"""Why the shop says no. The docstring is the message, unless the raiser says it better."""

from inbox.errors import InboxError


class ShopError(InboxError):
    """The shop could not do this."""

    slug, status = "shop", 409


class SheetUnreadable(ShopError):
    """A file of the shop's cannot be read."""


class NoSuchCoffee(ShopError):
    """There is no such coffee."""


class BadAmount(ShopError):
    """That is not an amount that the shop takes."""


class NotEnough(ShopError):
    """There are not enough bags."""


class NoSuchOrder(ShopError):
    """This customer has no such order."""


class NotRefundable(ShopError):
    """This cannot be refunded."""


class NotApproved(ShopError):
    """Nobody has approved this refund."""


class NoCustomer(ShopError):
    """This mailbox serves no customer, so nothing can be bought or given back here."""
