"""What a turn asked for: tool calls with their results, and the permissions that gate them."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from agents.models.talk import Message, Turn
from inbox.models import Mailbox


class ToolCall(models.Model):
    """One call that the model asked for: journaled before it runs and after. Its result lives here only."""

    class Status(models.TextChoices):
        PENDING = "pending"
        RUNNING = "running"
        WAITING = "waiting"
        DEFERRED = "deferred"
        DONE = "done"
        FAILED = "failed"
        DENIED = "denied"
        ABORTED = "aborted"
        UNKNOWN = "unknown"

    turn = models.ForeignKey(Turn, models.CASCADE, related_name="calls")
    message = models.ForeignKey(Message, models.CASCADE, related_name="calls")
    position = models.PositiveSmallIntegerField()
    call_id = models.CharField(max_length=200, help_text="The model's id of the call.")
    name = models.CharField(max_length=200)
    input = models.TextField(help_text="The arguments, as JSON text.")
    status = models.CharField(max_length=10, choices=Status, default=Status.PENDING)
    result = models.TextField(default="", blank=True)
    # What became known of an unknown outcome: a late result, or what staff found out. Sent to the agent once, as mail.
    recorded = models.TextField(default="", blank=True)
    recorded_by = models.CharField(max_length=200, default="", blank=True)
    recorded_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        permissions = [("record_outcome", "Can record what became of a call in doubt")]
        constraints = [
            models.UniqueConstraint(fields=["message", "position"], name="call_position_once"),
            models.UniqueConstraint(fields=["message", "call_id"], name="call_id_once"),
            models.CheckConstraint(
                name="call_shape",
                condition=Q(status__in=["pending", "waiting", "deferred"], finished_at__isnull=True)
                | Q(status="running", started_at__isnull=False, finished_at__isnull=True)
                | Q(status__in=["done", "failed", "unknown"], started_at__isnull=False, finished_at__isnull=False)
                | Q(status__in=["denied", "aborted"], finished_at__isnull=False),
            ),
            models.CheckConstraint(
                name="call_recorded",
                condition=Q(recorded_at__isnull=True, recorded="") | Q(status="unknown", recorded_at__isnull=False),
            ),
        ]
        indexes = [
            models.Index(
                "turn", "id", name="call_open", condition=Q(status__in=["pending", "running", "waiting", "deferred"])
            ),
            models.Index("id", name="call_in_doubt", condition=Q(status="unknown", recorded_at__isnull=True)),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.status})"

    @property
    def in_doubt(self) -> bool:
        """Whether nobody knows what became of it."""
        return self.status == self.Status.UNKNOWN and self.recorded_at is None


class Permission(models.Model):
    """A standing decision about a tool marked `permission`: whose calls, which arguments, until when."""

    class Scope(models.TextChoices):
        CALL = "call"
        ARGUMENTS = "arguments"
        ANY = "any"

    class Decision(models.TextChoices):
        GRANT = "grant"
        DENY = "deny"

    agent = models.CharField(max_length=100)
    tool = models.CharField(max_length=200)
    mailbox = models.ForeignKey(
        Mailbox,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="permissions",
        help_text="Empty: every mailbox of the agent.",
    )
    decision = models.CharField(max_length=10, choices=Decision)
    scope = models.CharField(max_length=10, choices=Scope)
    arguments = models.TextField(
        default="", blank=True, help_text="Canonical JSON; only for the scope of these arguments."
    )
    uses = models.PositiveIntegerField(null=True, blank=True, help_text="How many calls are left. Empty: no limit.")
    expires_at = models.DateTimeField(null=True, blank=True)
    decided_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, blank=True, related_name="+")
    decided_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        permissions = [
            ("decide_permission", "Can grant, deny and revoke tool permissions"),
            ("decide_permission_agent_wide", "Can grant tool permissions for every mailbox of an agent"),
        ]
        constraints = [
            # No arguments is not any arguments.
            models.CheckConstraint(
                name="permission_arguments",
                condition=Q(scope="any", arguments="") | (Q(scope__in=["call", "arguments"]) & ~Q(arguments="")),
            )
        ]
        indexes = [
            models.Index("agent", "tool", "mailbox", name="permission_look_up", condition=Q(revoked_at__isnull=True))
        ]

    def __str__(self) -> str:
        return f"{self.decision} {self.tool} ({self.scope})"
