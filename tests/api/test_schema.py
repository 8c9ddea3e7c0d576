"""The description is true: what schemathesis makes of it is answered as it says, and never with a 5xx."""

import re
from types import SimpleNamespace

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi import checks

from agents.services import conversations, permissions
from inbox.http.fields import ID_PATTERN
from inbox.services.mailboxes import open_mailbox
from mesh.services import joining, sending
from tests.api.kit import by_key
from tests.api.test_openapi import SNAPSHOT

pytestmark = pytest.mark.one_database

ASKED = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.unsupported_method,
]


@pytest.fixture
def one_connection():
    """The calls share the test's connection and its transaction, as those of Django's own client do."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture
def there(world, one_connection):
    """A caller who may do everything, and ids of rows."""
    talk = conversations.open_conversation(world.mailbox.pk)
    conversations.say(talk.pk, "Hello?")
    permission = permissions.grant(agent="helper", tool="look_up", mailbox_id=world.mailbox.pk, scope="any")
    one, other = (
        joining.join(mailbox)
        for mailbox in (world.mailbox, open_mailbox("helper/ada/side", agent="helper", owner=world.ada))
    )
    letter = sending.send(sending.From(other), str(one), "Hello.")
    return SimpleNamespace(
        rows={
            "conversation_id": talk.pk,
            "permission_id": permission.pk,
            "item_id": world.guarded.pk,
            "message_id": letter.message.pk,
            "peer_id": other.pk,
            "name": "helper",
        },
        root=by_key(world.root).key,
        peer=by_key(world.ada, peer=world.mailbox).key,
    )


described = schemathesis.openapi.from_path(SNAPSHOT)
described.app = get_wsgi_application()


@pytest.mark.django_db
@pytest.mark.slow
@described.parametrize()
@settings(max_examples=25, suppress_health_check=list(HealthCheck), deadline=None)
def test_every_answer_is_described(case, there):
    key = there.peer if "/mesh/" in case.path and "peer_id" not in case.path else there.root
    for name, drawn in (case.path_parameters or {}).items():
        # Half of the calls that name a possible row name one that is there.
        if (name in ("message_id", "name") or re.fullmatch(ID_PATTERN, str(drawn))) and sum(case.id.encode()) % 2:
            case.path_parameters[name] = str(there.rows[name])
    with transaction.atomic():
        case.call_and_validate(headers={"Authorization": f"Bearer {key}"}, checks=ASKED)
        transaction.set_rollback(True)
