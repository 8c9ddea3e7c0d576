"""The primitive: mailboxes whose items are asked now and answered later. Declare where answers come from in a glove.py."""

from inbox.declare import resolver, standard_webhooks, webhook

__all__ = ["resolver", "standard_webhooks", "webhook"]
