"""What model calls took, and what staff allow beyond the budget."""

from django.conf import settings
from django.db import models

from agents.models.talk import Conversation, Turn


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
