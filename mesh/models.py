"""The mesh's tables. Only `mesh.services` writes the stateful ones."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from inbox.models import Item, Mailbox


class Peer(models.Model):
    """A mailbox that others can reach by its address."""

    mailbox = models.OneToOneField(Mailbox, models.PROTECT, related_name="peer")
    description = models.TextField(default="", blank=True)
    metadata = models.JSONField(default=dict, blank=True)
    public = models.BooleanField(default=False, help_text="Everyone on the mesh sees it and may write to it.")
    declared = models.BooleanField(default=False, help_text="What its declaration says of it was written.")
    retired_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        permissions = [("manage_mesh", "Can retire peers, change topics and send dead deliveries again")]
        indexes = [
            models.Index("id", name="peer_public", condition=Q(public=True)),
            models.Index("id", name="peer_retired", condition=Q(retired_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return self.mailbox.address


class Capability(models.Model):
    """Something that a peer says it can do."""

    peer = models.ForeignKey(Peer, models.CASCADE, related_name="capabilities")
    name = models.CharField(max_length=100)

    class Meta:
        verbose_name_plural = "capabilities"
        constraints = [models.UniqueConstraint(fields=["name", "peer"], name="capability_once")]

    def __str__(self) -> str:
        return self.name


class Subscription(models.Model):
    """A topic whose broadcasts a peer gets."""

    class Source(models.TextChoices):
        DECLARED = "declared"
        STAFF = "staff"

    peer = models.ForeignKey(Peer, models.CASCADE, related_name="subscriptions")
    topic = models.CharField(max_length=100)
    source = models.CharField(max_length=10, choices=Source, default=Source.STAFF)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["topic", "peer"], name="subscription_once")]

    def __str__(self) -> str:
        return self.topic


class Message(models.Model):
    """One message of a peer to one or many. Its id is a UUIDv7 as text, since it travels."""

    class Kind(models.TextChoices):
        DIRECT = "direct"
        BROADCAST = "broadcast"

    id = models.CharField(primary_key=True, max_length=36)
    kind = models.CharField(max_length=10, choices=Kind)
    sender = models.ForeignKey(Peer, models.PROTECT, related_name="sent")
    content = models.TextField()
    in_reply_to = models.ForeignKey("self", models.SET_NULL, null=True, blank=True, related_name="replies")
    blocking = models.BooleanField(default=False)
    wait = models.OneToOneField(Item, models.SET_NULL, null=True, blank=True, related_name="+")
    quorum = models.PositiveIntegerField(default=1, help_text="How many acknowledgements end the wait.")
    everyone = models.BooleanField(
        default=False,
        db_default=False,
        help_text="All are needed: of those who were reached and are still on the mesh.",
    )
    topic = models.CharField(max_length=100, default="", blank=True)
    capability = models.CharField(max_length=100, default="", blank=True)
    root = models.CharField(max_length=36, help_text="The message that began the chain.")
    hops = models.PositiveSmallIntegerField(
        default=0, help_text="How many messages stand between this one and the root."
    )
    sent_in = models.BigIntegerField(null=True, blank=True, help_text="The turn that sent it.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [
            models.Index(fields=["sender", "-created_at"], name="message_by_sender"),
            models.Index(fields=["root"], name="message_by_root"),
            # Lists of staff, newest first.
            models.Index(fields=["-id"], name="message_broadcast", condition=Q(kind="broadcast")),
            models.Index(fields=["-id"], name="message_blocking", condition=Q(blocking=True)),
        ]

    def __str__(self) -> str:
        return self.id


class Delivery(models.Model):
    """One message to one recipient. Read is the item's `consumed_at`."""

    class Status(models.TextChoices):
        QUEUED = "queued"
        DELIVERED = "delivered"
        DEAD = "dead"

    message = models.ForeignKey(Message, models.CASCADE, related_name="deliveries")
    sender = models.ForeignKey(Peer, models.PROTECT, related_name="+")
    recipient = models.ForeignKey(Peer, models.PROTECT, related_name="received")
    item = models.ForeignKey(Item, models.SET_NULL, null=True, blank=True, related_name="deliveries")
    status = models.CharField(max_length=10, choices=Status, default=Status.QUEUED)
    reason = models.CharField(max_length=200, default="", blank=True)
    closed_at = models.DateTimeField(null=True, blank=True, help_text="When staff closed a dead one.")
    acknowledged_at = models.DateTimeField(null=True, blank=True)
    ack_note = models.TextField(default="", blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    delivered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            models.UniqueConstraint(fields=["message", "recipient"], name="delivery_once"),
            models.CheckConstraint(
                name="delivery_shape",
                condition=Q(status="queued", delivered_at__isnull=True, reason="")
                | Q(status="delivered", delivered_at__isnull=False)
                | (Q(status="dead", delivered_at__isnull=True) & ~Q(reason="")),
            ),
        ]
        indexes = [
            models.Index(fields=["recipient", "sender"], name="delivery_who_wrote", condition=Q(status="delivered")),
            models.Index(fields=["recipient", "-id"], name="delivery_received"),
            models.Index("id", name="delivery_queued", condition=Q(status="queued")),
            models.Index("id", name="delivery_dead", condition=Q(status="dead")),
        ]

    def __str__(self) -> str:
        return f"{self.message_id} to {self.recipient_id}"


class StoppedChain(models.Model):
    """One notice to staff: a chain of messages that ran over its budget of hops."""

    root = models.CharField(max_length=36, unique=True)
    sender = models.ForeignKey(Peer, models.CASCADE, related_name="+")
    content = models.TextField(help_text="What was not sent.")
    created_at = models.DateTimeField(auto_now_add=True)
    # Of staff who took note of it. Until then it needs attention.
    seen_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")

    def __str__(self) -> str:
        return self.root
