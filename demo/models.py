"""The shop's tables. Only `demo.orders` writes them."""

from django.conf import settings
from django.db import models
from django.db.models import F, Q


class Shelf(models.Model):
    """How many bags of a coffee have been ordered; what is left is the stock file's number less this."""

    sku = models.CharField(max_length=40, primary_key=True)
    ordered = models.PositiveIntegerField(default=0)

    class Meta:
        verbose_name_plural = "shelves"

    def __str__(self) -> str:
        return self.sku


class Order(models.Model):
    """Bags of one coffee for one customer. Money is in whole cents."""

    customer = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    sku = models.CharField(max_length=40)
    name = models.CharField(max_length=100)
    bags = models.PositiveIntegerField()
    total_cents = models.PositiveIntegerField()
    refunded_cents = models.PositiveIntegerField(default=0)
    key = models.CharField(max_length=200, unique=True, help_text="Of the call that placed it: once per call.")
    created_at = models.DateTimeField(auto_now_add=True)
    paid_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["customer", "-id"], name="order_by_customer")]
        constraints = [
            models.CheckConstraint(name="order_bags", condition=Q(bags__gte=1)),
            models.CheckConstraint(
                name="order_refund",
                condition=Q(refunded_cents=0) | Q(refunded_cents__lte=F("total_cents"), paid_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"order {self.pk}"


class Refund(models.Model):
    """Money that went back. One approval pays for one refund."""

    order = models.ForeignKey(Order, models.PROTECT, related_name="refunds")
    cents = models.PositiveIntegerField()
    key = models.CharField(max_length=200, unique=True, help_text="Of the call that made it: once per call.")
    # Not a foreign key: old items are purged, and this row outlives them.
    approval = models.BigIntegerField(
        unique=True, null=True, blank=True, help_text="The item in which staff approved it."
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.CheckConstraint(name="refund_cents", condition=Q(cents__gte=1))]

    def __str__(self) -> str:
        return f"refund {self.pk} of order {self.order_id}"
