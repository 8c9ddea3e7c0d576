"""What whoever reads the mail shows around an item. The inbox does not know its readers: they put one `Reader` in place.

`agents.admin` does so when Django's admin loads. Without it the desk still works, and shows only what the inbox knows.
"""

from typing import Any, NamedTuple

from inbox.models import Item


class Panel(NamedTuple):
    """A box beside a request: a template and what it is filled with."""

    title: str
    template: str
    context: dict[str, Any]


class Link(NamedTuple):
    """Words, and where they lead; no address where this person may not go there."""

    text: str
    url: str = ""


class Reader:
    """The side that reads items. Every answer is for this user's eyes, and changes nothing."""

    def agents(self) -> list[str]:
        """The names of the agents that a queue can be narrowed to."""
        return []

    def panels(self, user: Any, item: Item) -> list[Panel]:
        """The history around the request, and what its agent is about."""
        return []

    def wakes(self, user: Any, item: Item) -> Link:
        """Who will read the answer, in words."""
        return Link("The next reader of the mailbox reads the answer.")

    def run(self, user: Any, run_id: int) -> Link:
        """The run that posted an item, or read it."""
        return Link(f"run {run_id}")

    def mailbox_links(self, user: Any, mailbox_id: int) -> list[Link]:
        """What else there is about a mailbox."""
        return []

    def letter(self, mail: Any) -> str:
        """What is read, to the letter. `mail` has the fields of an Item that is closed."""
        return mail.response


_in_place = Reader()


def use(reader: Reader) -> None:
    """Put a reader in place."""
    global _in_place
    _in_place = reader


def current() -> Reader:
    """The reader in place."""
    return _in_place
