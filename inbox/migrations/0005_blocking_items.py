from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("inbox", "0004_ways")]
    operations = [
        migrations.AddIndex(
            "item", models.Index(fields=["-id"], name="item_blocking", condition=models.Q(blocking=True))
        )
    ]
