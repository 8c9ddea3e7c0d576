"""What is declared in the child processes, in which this is an installed app. The tests' own process never imports it."""

from inbox import resolver
from tests.storm.agent import declare

storm = declare()


@resolver("cron:*", every=1)
def asked_by_cron(item):
    """Answers at its next run."""
    return f"Cron says: {item.request}"
