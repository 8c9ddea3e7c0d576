"""Mail to staff, through Django's mail settings."""

import smtplib
from collections.abc import Sequence

from django.conf import settings
from django.core.mail import EmailMessage
from django.urls import reverse

from inbox import text
from inbox.models import Item
from inbox.notifiers.base import BaseNotifier, TransportError

LINES = 8
CHARS = 1000


class EmailNotifier(BaseNotifier):
    """One mail to everyone who may answer. It shows how the request begins and links into the admin, where one signs in: it
    holds nothing with which whoever reads the mail could answer."""

    option_types = {"from_email": str, "subject_prefix": str}

    def send(self, item: Item, recipients: Sequence[str]) -> None:
        """One SMTP conversation of at most EMAIL_TIMEOUT per step."""
        mail = EmailMessage(
            subject=self._subject(item),
            body=_body(item),
            from_email=self.options.get("from_email") or settings.DEFAULT_FROM_EMAIL,
            to=list(recipients),
            headers={"Auto-Submitted": "auto-generated"},  # RFC 3834: no absence notes in return
        )
        try:
            mail.send()
        except (smtplib.SMTPException, OSError) as error:
            raise TransportError(f"{type(error).__name__}: {error}", permanent=_is_permanent(error)) from error

    def _subject(self, item: Item) -> str:
        prefix = self.options.get("subject_prefix", "[Glove] ")
        return f"{prefix}{item.tag}: {text.first_line(text.marked(item.request).text)}"


def _is_permanent(error: Exception) -> bool:
    """Whether the server refused for good: a code of the 500s (RFC 5321, 4.2.1). A wrong password is mended by the operator."""
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return False
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return all(code >= 500 for code, _ in error.recipients.values())
    return isinstance(error, smtplib.SMTPResponseException) and 500 <= error.smtp_code < 600


def _body(item: Item) -> str:
    beginning, hidden = _beginning(item.request)
    address = reverse("admin:inbox_item_change", args=[item.pk])
    parts = [
        f"{item.mailbox.agent} asks in {item.mailbox.address} ({item.tag}, item {item.pk}):",
        "\n".join(f"> {line}" for line in beginning.splitlines()),
    ]
    if hidden:
        parts.append(f"{hidden} characters of the request cannot be seen; they are written out as <U+...>.")
    if item.due_at:
        parts.append(f"To be answered by {item.due_at:%Y-%m-%d %H:%M} UTC.")
    parts.append(f"Read and answer it here, after signing in:\n{settings.PUBLIC_URL}{address}")
    return "\n\n".join(parts) + "\n"


def _beginning(request: str) -> tuple[str, int]:
    """How the request begins, with hidden characters written out, and how many of them the whole has."""
    shown, hidden = text.marked(request)
    whole = "\n".join(shown.rstrip().splitlines())  # a line end of two characters is no text that was cut
    short = "\n".join(whole.split("\n")[:LINES])[:CHARS]
    return (short if short == whole else f"{short}\n[...]"), hidden
