"""When a schedule was declared, and a notification that was not needed any more."""

import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("inbox", "0003_canned_answer")]
    operations = [
        migrations.AddField(
            "declaredschedule",
            "created_at",
            models.DateTimeField(auto_now_add=True, default=django.utils.timezone.now),
            preserve_default=False,
        ),
        migrations.AlterField("declaredschedule", "declared", models.TextField()),
        migrations.AlterField(
            "notification",
            "status",
            models.CharField(
                choices=[
                    ("queued", "Queued"),
                    ("sending", "Sending"),
                    ("sent", "Sent"),
                    ("failed", "Failed"),
                    ("skipped", "Skipped"),
                ],
                default="queued",
                max_length=10,
            ),
        ),
    ]
