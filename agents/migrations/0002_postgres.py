"""Postgres only: triggers that refuse an illegal move of a turn or a tool call, even from raw SQL or a stale save()."""

from django.db import migrations

GUARD = """
CREATE OR REPLACE FUNCTION agents_turn_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT (
        (OLD.status = 'queued' AND NEW.status IN ('running', 'cancelled'))
        OR (OLD.status = 'running' AND NEW.status IN ('queued', 'waiting', 'done', 'failed', 'cancelled'))
        OR (OLD.status = 'waiting' AND NEW.status IN ('queued', 'cancelled', 'failed'))
    ) THEN
        RAISE EXCEPTION 'turn %: % -> % is not a move', OLD.id, OLD.status, NEW.status USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER agents_turn_guard BEFORE UPDATE ON agents_turn FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION agents_turn_guard();

CREATE OR REPLACE FUNCTION agents_toolcall_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT (
        (OLD.status = 'pending' AND NEW.status IN ('running', 'waiting', 'denied', 'aborted'))
        OR (OLD.status = 'running' AND NEW.status IN ('done', 'failed', 'unknown'))
        OR (OLD.status = 'waiting' AND NEW.status IN ('running', 'denied', 'aborted', 'deferred'))
        OR (OLD.status = 'deferred' AND NEW.status IN ('running', 'denied', 'aborted'))
    ) THEN
        RAISE EXCEPTION 'call %: % -> % is not a move', OLD.id, OLD.status, NEW.status USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER agents_toolcall_guard BEFORE UPDATE ON agents_toolcall FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION agents_toolcall_guard();
"""


def install(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(GUARD, params=None)


def remove(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(
            "DROP TRIGGER agents_turn_guard ON agents_turn; DROP FUNCTION agents_turn_guard();"
            "DROP TRIGGER agents_toolcall_guard ON agents_toolcall; DROP FUNCTION agents_toolcall_guard();",
            params=None,
        )


class Migration(migrations.Migration):
    dependencies = [("agents", "0001_initial"), ("inbox", "0002_postgres")]
    operations = [migrations.RunPython(install, remove)]
