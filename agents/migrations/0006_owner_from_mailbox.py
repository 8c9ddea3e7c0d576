"""A conversation's owner is its mailbox's. A migration of its own: Postgres alters no table in a transaction that writes to it."""

from django.db import migrations, models


def take_from_mailbox(apps, schema_editor):
    conversations = apps.get_model("agents", "Conversation").objects
    mailbox = apps.get_model("inbox", "Mailbox").objects.filter(pk=models.OuterRef("mailbox"))
    conversations.update(owner_id=models.Subquery(mailbox.values("owner")[:1]))


class Migration(migrations.Migration):
    dependencies = [("agents", "0005_conversation_owner")]
    operations = [migrations.RunPython(take_from_mailbox, migrations.RunPython.noop)]
