"""What the inbox tells others. Sent after commit; a lost signal costs only delay, the sweep finds the row."""

from django.dispatch import Signal

# kwargs: mailbox_id
mailbox_ready = Signal()
# No kwargs: so many mailboxes are ready that they are for a worker to look for.
many_ready = Signal()
