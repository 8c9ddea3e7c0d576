"""Keys of callers, and what their repeated requests were answered."""

from django.conf import settings
from django.db import models

from inbox.models.items import Mailbox


class ApiKey(models.Model):
    """A caller's key: hashed, scoped, revocable, bound to a user and, for a peer, to one mailbox."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12, help_text="The key's first characters, to tell keys apart.")
    key_hash = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list, blank=True, help_text="Empty: whatever its user may do.")
    peer = models.ForeignKey(Mailbox, models.CASCADE, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "API key"

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class IdempotencyKey(models.Model):
    """What a POST with an Idempotency-Key was answered, written in the transaction of its effect."""

    caller = models.CharField(max_length=80)
    route = models.CharField(max_length=200)
    key = models.CharField(max_length=200)
    body_hash = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(default=0)
    body = models.TextField(default="", blank=True)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint("caller", "route", "key", name="idempotency_key_once")]

    def __str__(self) -> str:
        return f"{self.caller} {self.route}"
