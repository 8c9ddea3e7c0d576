"""What the inbox tells others. But for the last one sent after commit; a lost signal costs only delay, the sweep finds the row."""

from django.dispatch import Signal

# kwargs: mailbox_id
mailbox_ready = Signal()
# No kwargs: so many mailboxes are ready that they are for a worker to look for.
many_ready = Signal()
# kwargs: closed, the items' (id, tag); via. In the transaction that closes them: what a receiver writes stands or falls with it.
closing = Signal()
