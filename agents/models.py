"""The agents' tables. Only `agents.services` writes the stateful ones."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from inbox.models import Item, Mailbox


class Conversation(models.Model):
    """A history of messages between one agent and whoever it serves, on one mailbox."""

    class Status(models.TextChoices):
        OPEN = "open"
        CLOSED = "closed"

    agent = models.CharField(max_length=100)
    mailbox = models.ForeignKey(Mailbox, models.PROTECT, related_name="conversations")
    # Whom it serves: the mailbox's owner, or who opened it on a mailbox that has none.
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    title = models.CharField(max_length=200, default="", blank=True)
    status = models.CharField(max_length=10, choices=Status, default=Status.OPEN)
    # Counts wakes and user messages; raised under this row's lock. A turn that heard less than this has a successor.
    rung = models.BigIntegerField(default=0)
    # The place of the last summary: the prompt begins there.
    head = models.PositiveIntegerField(default=0)
    context_tokens = models.PositiveIntegerField(
        default=0, help_text="Size of the last prompt and its reply, in tokens."
    )
    input_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["mailbox", "-id"], name="conversation_by_mailbox"),
            models.Index(fields=["owner", "-id"], name="conversation_by_owner"),
            models.Index(fields=["mailbox", "-id"], name="conversation_open", condition=Q(status="open")),
        ]
        constraints = [
            models.CheckConstraint(
                name="conversation_shape",
                condition=Q(status="open", closed_at__isnull=True) | Q(status="closed", closed_at__isnull=False),
            )
        ]

    def __str__(self) -> str:
        return self.title or f"{self.agent} {self.pk}"


class Turn(models.Model):
    """One run of the agent loop in a conversation."""

    class Status(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        WAITING = "waiting"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"

    conversation = models.ForeignKey(Conversation, models.CASCADE, related_name="turns")
    status = models.CharField(max_length=10, choices=Status, default=Status.QUEUED)
    reason = models.CharField(max_length=40, default="", blank=True)
    error = models.TextField(default="", blank=True)
    # The fence: whoever holds the token writes; every move out of running clears it.
    token = models.BigIntegerField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveSmallIntegerField(default=0, help_text="Lapsed leases since the last progress.")
    not_before = models.DateTimeField()
    rung_at = models.DateTimeField(null=True, blank=True, help_text="When its doorbell was last rung.")
    heard = models.BigIntegerField(default=0)
    model_calls = models.PositiveIntegerField(default=0)
    compactions = models.PositiveSmallIntegerField(default=0)
    backoffs = models.PositiveSmallIntegerField(default=0, help_text="Passing model faults since the last reply.")
    troubled_at = models.DateTimeField(null=True, blank=True, help_text="When the first of those happened.")
    input_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["conversation"], name="turn_one_open", condition=Q(status__in=["queued", "running", "waiting"])
            ),
            models.CheckConstraint(
                name="turn_shape",
                condition=Q(status="running", token__isnull=False, lease_until__isnull=False, finished_at__isnull=True)
                | Q(
                    status__in=["queued", "waiting"],
                    token__isnull=True,
                    lease_until__isnull=True,
                    finished_at__isnull=True,
                )
                | Q(
                    status__in=["done", "failed", "cancelled"],
                    token__isnull=True,
                    lease_until__isnull=True,
                    finished_at__isnull=False,
                ),
            ),
        ]
        indexes = [
            models.Index("not_before", name="turn_queued", condition=Q(status="queued")),
            models.Index("lease_until", name="turn_running", condition=Q(status="running")),
            models.Index(fields=["conversation", "-id"], name="turn_newest"),
        ]

    def __str__(self) -> str:
        return f"turn {self.pk} ({self.status})"


class Message(models.Model):
    """One entry of a conversation. It has no place until a turn receives it."""

    class Sender(models.TextChoices):
        USER = "user"
        AGENT = "agent"

    class Kind(models.TextChoices):
        MESSAGE = "message"
        INBOX = "inbox"
        SUMMARY = "summary"
        SKILL = "skill"
        NOTICE = "notice"

    # No index of its own: the planner would prefer it to that of the places, and read a whole history to find its end.
    conversation = models.ForeignKey(Conversation, models.CASCADE, related_name="messages", db_index=False)
    place = models.PositiveIntegerField(null=True, blank=True)
    sender = models.CharField(max_length=10, choices=Sender)
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.MESSAGE)
    text = models.TextField(default="", blank=True)
    blocks = models.TextField(
        default="", blank=True, help_text="The provider's content blocks, as JSON text, byte for byte."
    )
    nonce = models.CharField(max_length=32, default="", blank=True, help_text="Marks of the frame around mail.")
    item = models.ForeignKey(Item, models.SET_NULL, null=True, blank=True, related_name="messages")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    turn = models.ForeignKey(Turn, models.SET_NULL, null=True, blank=True, related_name="messages")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["conversation", "place"], name="message_place_once"),
            # Each item enters a transcript exactly once.
            models.UniqueConstraint(fields=["item"], name="message_item_once"),
        ]
        indexes = [models.Index("conversation", "id", name="message_queued", condition=Q(place__isnull=True))]

    def __str__(self) -> str:
        return f"{self.sender} {self.kind} {self.pk}"


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
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.status})"


class ModelCall(models.Model):
    """One call of a model: what it took, and how it ended."""

    turn = models.ForeignKey(Turn, models.CASCADE, related_name="model_call_rows")
    conversation = models.ForeignKey(Conversation, models.CASCADE, related_name="model_calls")
    agent = models.CharField(max_length=100)
    day = models.DateField(help_text="In UTC, by the database's clock.")
    model = models.CharField(max_length=100, default="", blank=True)
    purpose = models.CharField(max_length=10, default="reply", help_text="reply or summary")
    attempt = models.PositiveSmallIntegerField(default=1, help_text="1, or more after passing faults.")
    input_tokens = models.PositiveIntegerField(default=0)
    output_tokens = models.PositiveIntegerField(default=0)
    cache_read_tokens = models.PositiveIntegerField(default=0)
    cache_write_tokens = models.PositiveIntegerField(default=0)
    cost_micros = models.BigIntegerField(default=0, help_text="Millionths of the currency of AGENT_PRICES.")
    duration_ms = models.PositiveIntegerField(default=0)
    stop_reason = models.CharField(max_length=40, default="", blank=True)
    error = models.CharField(max_length=40, default="", blank=True, help_text="Empty: it gave a reply.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [
            models.Index(fields=["conversation", "day"], name="model_call_by_conversation"),
            models.Index(fields=["agent", "day"], name="model_call_by_agent"),
        ]

    def __str__(self) -> str:
        return f"{self.model} {self.purpose} {self.error or self.stop_reason}"


class BudgetRaise(models.Model):
    """What staff allow beyond the declared daily budget: for one conversation, or (without one) for the whole agent."""

    agent = models.CharField(max_length=100)
    conversation = models.ForeignKey(Conversation, models.CASCADE, null=True, blank=True, related_name="budget_raises")
    day = models.DateField(help_text="In UTC.")
    tokens = models.BigIntegerField(default=0)
    money = models.DecimalField(max_digits=12, decimal_places=4, default=0)
    raised_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        permissions = [("raise_budget", "Can raise an agent's budget for a day")]
        indexes = [models.Index(fields=["agent", "day"], name="budget_raise_look_up")]

    def __str__(self) -> str:
        return f"{self.agent} {self.day}: {self.tokens} tokens, {self.money}"


class Task(models.Model):
    """One entry of the agent's task list, which belongs to the conversation."""

    class Status(models.TextChoices):
        PENDING = "pending"
        IN_PROGRESS = "in_progress"
        COMPLETED = "completed"

    conversation = models.ForeignKey(Conversation, models.CASCADE, related_name="tasks")
    position = models.PositiveSmallIntegerField()
    content = models.TextField()
    active_form = models.TextField(default="", blank=True)
    status = models.CharField(max_length=15, choices=Status, default=Status.PENDING)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["position"]
        constraints = [models.UniqueConstraint(fields=["conversation", "position"], name="task_position_once")]

    def __str__(self) -> str:
        return self.content


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
