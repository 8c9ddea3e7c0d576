"""What can go wrong with agents. The docstring is the message, unless the raiser says it better."""

from inbox.errors import InboxError


class AgentsError(InboxError):
    """The agent could not do this."""

    slug = "agents-error"


class UnknownAgent(AgentsError):
    """There is no such agent. GET /api/v1/agents lists those that are declared."""

    slug, status = "unknown-agent", 404


class ConversationNotFound(AgentsError):
    """There is no such conversation, or you may not see it. Check its id."""

    slug, status = "conversation-not-found", 404


class ConversationClosed(AgentsError):
    """The conversation is closed. Open a new one on the same mailbox; its mail goes there."""

    slug, status = "conversation-closed", 409


class MailboxNotFound(AgentsError):
    """There is no such mailbox here. Name your own, or one below it."""

    slug, status = "mailbox-not-found", 404


class NothingToCancel(AgentsError):
    """No turn of this conversation is open; there is nothing to cancel."""

    slug, status = "nothing-to-cancel", 409


class NothingToRetry(AgentsError):
    """The conversation's last turn has neither failed nor been cancelled; there is nothing to try again."""

    slug, status = "nothing-to-retry", 409


class PermissionNotFound(AgentsError):
    """There is no such permission, or you may not see it. Check its id."""

    slug, status = "permission-not-found", 404


class BadPermission(AgentsError):
    """This permission cannot be granted as written."""

    slug, status = "bad-permission", 422


class BadTasks(AgentsError):
    """A task list is at most 100 tasks, each with content, and activeForm and a status of pending, in_progress or completed."""

    slug, status = "bad-tasks", 422


class BadBudget(AgentsError):
    """A budget is raised by a positive number of tokens or a positive sum of money."""

    slug, status = "bad-budget", 422


class CallNotFound(AgentsError):
    """There is no such tool call here."""

    slug, status = "call-not-found", 404


class NotInDoubt(AgentsError):
    """This call's outcome is known already; nothing was changed."""

    slug, status = "not-in-doubt", 409


class ToolTooSlow(AgentsError):
    """The tool took too long, and was taken back."""

    slug = "tool-too-slow"


class ToolGaveUp(AgentsError):
    """What the tool itself called was ended: an agent's turn on a store of its own, or a program."""

    slug = "tool-gave-up"


class BadDeclaration(AgentsError):
    """A declaration in a glove.py cannot be used."""

    slug, status = "bad-declaration", 500


# --- How a turn leaves the loop. These never reach a caller of the API.


class LeaveTurn(Exception):
    """The loop ends here."""


class Fenced(LeaveTurn):
    """Another worker has the turn, or it was ended: this one may write nothing more."""


class HandBack(LeaveTurn):
    """The worker is stopping: the turn is queued again, no attempt counted."""


class PutOff(LeaveTurn):
    """The model cannot answer now: the turn is queued for later. `seconds` is what the provider asked for, if it did."""

    def __init__(self, reason: str, detail: str, seconds: float | None = None) -> None:
        super().__init__(detail)
        self.reason, self.seconds = reason, seconds


class TurnFailed(LeaveTurn):
    """The turn ends as failed, with this reason; the conversation stays usable."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason = reason
