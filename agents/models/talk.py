"""Conversations, their turns and messages, and the agent's task list."""

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
            models.Index("id", name="turn_failed", condition=Q(status="failed")),
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
