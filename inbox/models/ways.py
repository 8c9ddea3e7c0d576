"""What the ways to an answer remember: links, webhooks, schedules, notifications, the sweep."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from inbox.models.items import Item


class ResolveLink(models.Model):
    """A signed link that answers one item. Only the token's hash is kept."""

    item = models.ForeignKey(Item, models.CASCADE, related_name="links")
    token_hash = models.CharField(max_length=64, unique=True)
    maker = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "link"

    def __str__(self) -> str:
        return f"link {self.pk} for item {self.item_id}"


class WebhookReceipt(models.Model):
    """An event id that a webhook has taken: the same event again changes nothing."""

    hook = models.CharField(max_length=100)
    event_id = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint("hook", "event_id", name="webhook_event_once")]

    def __str__(self) -> str:
        return f"{self.hook} {self.event_id}"


class EarlyAnswer(models.Model):
    """An answer that came before its request; the first request with its tag takes it."""

    tag = models.CharField(max_length=120)
    response = models.TextField()
    resolved_by = models.CharField(max_length=200)
    resolved_via = models.CharField(max_length=10, choices=Item.Via)
    created_at = models.DateTimeField(auto_now_add=True)
    taken_by = models.ForeignKey(Item, models.SET_NULL, null=True, blank=True, related_name="+")
    taken_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index("tag", "id", name="early_by_tag", condition=Q(taken_at__isnull=True))]

    def __str__(self) -> str:
        return f"{self.tag} ({self.pk})"


class ResolverRun(models.Model):
    """One run of a resolver, claimed by its instant: two beats make one run."""

    name = models.CharField(max_length=100)
    instant = models.DateTimeField()
    started_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    looked_at = models.PositiveIntegerField(default=0)
    resolved = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    error = models.TextField(default="", blank=True)

    class Meta:
        constraints = [models.UniqueConstraint("name", "instant", name="resolver_once_per_instant")]
        indexes = [models.Index(fields=["name", "-id"], name="resolver_runs_newest")]

    def __str__(self) -> str:
        return f"{self.name} at {self.instant:%Y-%m-%d %H:%M:%S}"


class DeclaredSchedule(models.Model):
    """What a resolver's declaration said when it was last synced, so that a person's change is told from an old declaration."""

    name = models.CharField(max_length=100, unique=True)
    task_id = models.BigIntegerField(help_text="The PeriodicTask that was made for it.")
    declared = models.TextField()
    # What was due before it was declared is not caught up.
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class Notification(models.Model):
    """One notice of one item by one notifier: history and outbox in a row."""

    class Status(models.TextChoices):
        QUEUED = "queued"
        SENDING = "sending"
        SENT = "sent"
        FAILED = "failed"
        SKIPPED = "skipped"

    item = models.ForeignKey(Item, models.CASCADE, related_name="notifications")
    notifier = models.CharField(max_length=50)
    status = models.CharField(max_length=10, choices=Status, default=Status.QUEUED)
    recipients = models.TextField(default="", blank=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    not_before = models.DateTimeField()
    error = models.TextField(default="", blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint("item", "notifier", name="notification_once")]
        indexes = [models.Index("not_before", name="notification_due", condition=Q(status__in=["queued", "sending"]))]

    def __str__(self) -> str:
        return f"{self.notifier} for item {self.item_id}: {self.status}"


class Sweep(models.Model):
    """When each kind of sweep last began; claimed by a conditional update, so that one process sweeps at a time."""

    name = models.CharField(max_length=50, unique=True)
    began_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name
