"""What staff keep at hand while they answer."""

from django.core.validators import RegexValidator
from django.db import models

from inbox import tags


class CannedAnswer(models.Model):
    """A text that staff give again and again to the tags that fit a pattern."""

    pattern = models.CharField(
        max_length=120,
        default="*",
        validators=[RegexValidator(f"^{tags.PATTERN}\\Z")],
        help_text="The tags that it is offered for; * stands for any run of characters: approval:*",
    )
    title = models.CharField(max_length=80, help_text="What the button says.")
    text = models.TextField(help_text="What the agent reads. It can be changed before it is sent.")

    class Meta:
        ordering = ["title", "pk"]
        constraints = [models.UniqueConstraint(fields=["pattern", "title"], name="canned_answer_title_once")]

    def __str__(self) -> str:
        return self.title
