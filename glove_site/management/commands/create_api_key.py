"""`manage.py create_api_key`: a key for a caller of the API."""

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

from inbox.errors import InboxError
from inbox.models import Mailbox
from inbox.services import keys
from inbox.services.mailboxes import find_mailbox


class Command(BaseCommand):
    help = "Make an API key for a user and print it, alone on stdout. It is shown this once: only its hash is kept."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", help="The user whom the key speaks for.")
        parser.add_argument("--name", required=True, help="What the key is for, to tell keys apart.")
        parser.add_argument(
            "--scope",
            action="append",
            default=[],
            metavar="SCOPE",
            dest="scopes",
            help=f"What the key may do; may be repeated. Without it, whatever its user may. One of {', '.join(keys.SCOPES)}.",
        )
        parser.add_argument("--peer", metavar="ADDRESS", help="The mailbox that the key speaks for on the mesh.")

    def handle(self, *, username: str, name: str, scopes: list[str], peer: str | None, **options: Any) -> None:
        users: Any = get_user_model()
        try:
            user = users.objects.get_by_natural_key(username)
        except users.DoesNotExist:
            raise CommandError(f"There is no user {username!r}.") from None
        if not user.is_active:
            raise CommandError(f"{username!r} is not active: a key of hers would open nothing.")
        try:
            key, plaintext = keys.create_key(user, name, scopes, peer=_peer(peer))
        except InboxError as error:
            raise CommandError(str(error)) from error
        self.stderr.write(f"Key {key.name!r} of {username}, shown this once:")
        self.stdout.write(plaintext)


def _peer(address: str | None) -> Mailbox | None:
    if address is None:
        return None
    mailbox = find_mailbox(address)
    if mailbox is None:
        raise CommandError(
            f"There is no mailbox {address!r}. Declare peer({address!r}) in a glove.py and migrate,"
            " or register it under Peers in the admin."
        )
    return mailbox
