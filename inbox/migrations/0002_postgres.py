"""Postgres only: the clock functions, and the trigger that refuses an illegal move of an item and freezes a given answer,
even from raw SQL or a stale save()."""

from django.db import migrations

from inbox.clock import POSTGRES_SQL

GUARD = """
CREATE OR REPLACE FUNCTION inbox_item_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.status <> NEW.status AND NOT (
        (OLD.status = 'pending' AND NEW.status = 'resolved')
        OR (OLD.status = 'resolved' AND NEW.status = 'consumed')
        OR (OLD.status = 'pending' AND NEW.status = 'consumed' AND NEW.outcome = 'withdrawn')
    ) THEN
        RAISE EXCEPTION 'item %: % -> % is not a move', OLD.id, OLD.status, NEW.status USING ERRCODE = 'check_violation';
    END IF;
    IF (OLD.mailbox_id, OLD.tag, OLD.request, OLD.asked) IS DISTINCT FROM (NEW.mailbox_id, NEW.tag, NEW.request, NEW.asked) THEN
        RAISE EXCEPTION 'item %: a request does not change', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.status <> 'pending' AND
        (OLD.response, OLD.outcome, OLD.resolved_at, OLD.resolved_by, OLD.resolved_via)
        IS DISTINCT FROM (NEW.response, NEW.outcome, NEW.resolved_at, NEW.resolved_by, NEW.resolved_via) THEN
        RAISE EXCEPTION 'item %: a given answer does not change', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.status = 'consumed' AND
        (OLD.consumed_at, OLD.consumed_in) IS DISTINCT FROM (NEW.consumed_at, NEW.consumed_in) THEN
        RAISE EXCEPTION 'item %: it was read already', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER inbox_item_guard BEFORE UPDATE ON inbox_item FOR EACH ROW EXECUTE FUNCTION inbox_item_guard();
"""


def install(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(POSTGRES_SQL, params=None)
        schema_editor.execute(GUARD, params=None)


def remove(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(
            "DROP TRIGGER inbox_item_guard ON inbox_item; DROP FUNCTION inbox_item_guard();",
            params=None,
        )


class Migration(migrations.Migration):
    dependencies = [("inbox", "0001_initial")]
    operations = [migrations.RunPython(install, remove)]
