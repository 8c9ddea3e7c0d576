"""What can go wrong in the inbox. The docstring is the message, unless the raiser says it better."""

from typing import Any


class InboxError(Exception):
    """The inbox could not do this."""

    slug = "inbox-error"
    status = 400

    def remember(self) -> None:
        """Writes what should outlive the refusal; called after the transaction that was refused is rolled back."""

    def __init__(self, message: str = "", **facts: Any) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())
        self.facts = facts


class UnstorableText(InboxError):
    """The text holds characters that cannot be stored."""

    slug, status = "text", 422


class BlankText(UnstorableText):
    """The text is blank."""

    slug = "blank-text"


class TextTooLong(InboxError):
    """The text is too long."""

    slug, status = "text-too-long", 413


class BadTag(InboxError):
    """A tag is 1 to 120 of the characters A-Z a-z 0-9 _ . : / - and does not begin with mesh: or tool:."""

    slug, status = "bad-tag", 422


class BadAddress(InboxError):
    """An address is 1 to 200 of the characters A-Z a-z 0-9 . _ @ + / - , and no part between slashes is "." or ".."."""

    slug, status = "bad-address", 422


class AddressTaken(InboxError):
    """Another mailbox has this address, perhaps in other letters of the same name."""

    slug, status = "address-taken", 409


class BadDeadline(InboxError):
    """A deadline is a number of seconds between 1 and a year."""

    slug, status = "bad-deadline", 422


class TooManyOpenItems(InboxError):
    """This mailbox has as many open requests as it may. Wait for answers, or withdraw one."""

    slug, status = "too-many-open-items", 409


class TooManyAtOnce(InboxError):
    """That is more than 200 requests at once. Select fewer."""

    slug, status = "too-many-at-once", 422


class ItemNotFound(InboxError):
    """There is no such item, or you may not see it. Check its id."""

    slug, status = "item-not-found", 404


class AlreadyClosed(InboxError):
    """The item is closed already; nothing was changed. `facts` say by whom and when, and keep the text that was refused."""

    slug, status = "already-closed", 409


class LinkUnknown(InboxError):
    """There is no such link. Check that the whole address was copied."""

    slug, status = "link-unknown", 404


class LinkGone(InboxError):
    """This link has expired or was revoked. Ask for a new one, or answer in the admin."""

    slug, status = "link-gone", 410


class NotAllowed(InboxError):
    """You may not do this."""

    slug, status = "not-allowed", 403


class DuplicateName(InboxError):
    """Two declarations have the same name."""

    slug, status = "duplicate-name", 500


class BadScope(InboxError):
    """There is no such scope."""

    slug, status = "bad-scope", 422


class BadDeclaration(InboxError):
    """A resolver or webhook is declared wrongly."""

    slug, status = "bad-declaration", 500


class UnknownResolver(InboxError):
    """No resolver of this name is declared."""

    slug, status = "unknown-resolver", 404


class UnknownHook(InboxError):
    """No webhook of this name is declared here. Check the address."""

    slug, status = "unknown-hook", 404


class BadSignature(InboxError):
    """The signature does not match the body, or is too old. Sign the raw body anew and send it again."""

    slug, status = "bad-signature", 401


class HookFailed(InboxError):
    """This webhook's function failed. It has been logged and nothing was changed; send the event again later."""

    slug, status = "hook-failed", 500
