"""Mailboxes, their items, and who answers which tag."""

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower

from inbox import tags, text


class Mailbox(models.Model):
    """An agent's durable address. Mail belongs to it, never to a process or a context window."""

    address = models.CharField(max_length=200, validators=[RegexValidator(f"^{tags.ADDRESS}\\Z")])
    # PROTECT: deleting a user must not make a mailbox ownerless, and so readable by others.
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, blank=True, related_name="mailboxes")
    agent = models.CharField(max_length=100, help_text="The agent that reads it.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name_plural = "mailboxes"
        permissions = [("mailboxes", "Can open mailboxes at free addresses")]
        constraints = [
            models.UniqueConstraint(Lower("address"), name="mailbox_address_unique"),
            models.CheckConstraint(condition=Q(address__regex=f"^{tags.ADDRESS}$"), name="mailbox_address_ascii"),
        ]

    def __str__(self) -> str:
        return self.address


class Item(models.Model):
    """One request and its reply: pending -> resolved -> consumed."""

    class Status(models.TextChoices):
        PENDING = "pending"
        RESOLVED = "resolved"
        CONSUMED = "consumed"

    class Outcome(models.TextChoices):
        """How it closed."""

        ANSWERED = "answered"
        EXPIRED = "expired"
        CANCELLED = "cancelled"
        UNDELIVERABLE = "undeliverable"
        WITHDRAWN = "withdrawn"

    class Via(models.TextChoices):
        """The way the answer came."""

        ADMIN = "admin"
        API = "api"
        LINK = "link"
        WEBHOOK = "webhook"
        CRON = "cron"
        MESH = "mesh"
        DEADLINE = "deadline"
        SYSTEM = "system"

    mailbox = models.ForeignKey(Mailbox, models.PROTECT, related_name="items")
    tag = models.CharField(max_length=120)
    request = models.TextField()
    response = models.TextField(default="", blank=True)
    status = models.CharField(max_length=10, choices=Status, default=Status.PENDING)
    outcome = models.CharField(max_length=15, choices=Outcome, default="", blank=True)
    blocking = models.BooleanField(default=False, help_text="The agent said that it would wait.")
    asked = models.BooleanField(default=True, help_text="False for mail that nobody asked for.")
    wakes = models.BooleanField(default=True, help_text="False for mail that waits for the next turn.")
    rung = models.BooleanField(default=False, help_text="Its wake has happened.")
    # Opaque here: what the reader's side calls the place that posted it, and the runs that posted and read it.
    origin = models.BigIntegerField(null=True, blank=True)
    posted_in = models.BigIntegerField(null=True, blank=True)
    consumed_in = models.BigIntegerField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    due_at = models.DateTimeField(null=True, blank=True)
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolved_by = models.CharField(max_length=200, default="", blank=True)
    resolver = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    resolved_via = models.CharField(max_length=10, choices=Via, default="", blank=True)
    consumed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        permissions = [("resolve_item", "Can resolve, cancel and link items"), ("drop_item", "Can drop mail to agents")]
        constraints = [
            models.CheckConstraint(
                name="item_shape",
                condition=Q(
                    status="pending",
                    outcome="",
                    response="",
                    resolved_via="",
                    resolved_at__isnull=True,
                    consumed_at__isnull=True,
                )
                | (
                    Q(status="resolved", resolved_at__isnull=False, consumed_at__isnull=True)
                    & ~Q(outcome__in=["", "withdrawn"])
                    & ~Q(resolved_via="")
                )
                | (Q(status="consumed", resolved_at__isnull=False, consumed_at__isnull=False) & ~Q(outcome="")),
            ),
            models.CheckConstraint(
                name="item_outcome",
                condition=Q(outcome__in=["", "answered", "expired", "cancelled", "undeliverable"])
                | Q(outcome="withdrawn", status="consumed"),
            ),
            models.CheckConstraint(name="item_quiet_is_rung", condition=Q(wakes=True) | Q(rung=True)),
        ]
        indexes = [
            # What a turn reads, and what a wake looks for.
            models.Index("mailbox", "id", name="item_resolved", condition=Q(status="resolved")),
            models.Index("id", name="item_unrung", condition=Q(status="resolved", rung=False)),
            # The queue of staff, and the deadline sweep; reminders and limits of one mailbox; resolvers and webhooks by tag.
            models.Index("due_at", "id", name="item_queue", condition=Q(status="pending")),
            models.Index("mailbox", "id", name="item_pending_mailbox", condition=Q(status="pending")),
            models.Index("tag", "id", name="item_pending_tag", condition=Q(status="pending")),
            # Lists, newest first, by each filter of the API.
            models.Index(fields=["mailbox", "-id"], name="item_by_mailbox"),
            models.Index(fields=["status", "-id"], name="item_by_status"),
            models.Index(fields=["tag", "-id"], name="item_by_tag"),
            models.Index(fields=["-id"], name="item_blocking", condition=Q(blocking=True)),
            models.Index("origin", name="item_by_origin", condition=Q(origin__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.tag} ({self.pk})"

    @property
    def summary(self) -> str:
        """The request's first line."""
        return text.first_line(self.request)


class TagGroup(models.Model):
    """Which groups answer the tags that fit a pattern. A tag that no row fits is open to every holder of the permission."""

    pattern = models.CharField(max_length=120, unique=True, validators=[RegexValidator(f"^{tags.PATTERN}\\Z")])
    groups = models.ManyToManyField(Group, related_name="+")

    class Meta:
        ordering = ["pattern"]

    def __str__(self) -> str:
        return self.pattern
