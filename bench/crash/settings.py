"""The site as it is in production, with the crash tests' agent; short times, so that recoveries come soon."""

import os

from glove_site.settings import *  # noqa: F403
from glove_site.settings import DATABASES, INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "bench.crash"]
AGENT_MODELS = {
    "default": {
        "BACKEND": "agents.adapters.scripted.ScriptedModel",
        "OPTIONS": {"script": "bench.crash.model.reply"},
    }
}
# Less than twice the lease: the session of a worker that is stopped inside a transaction ends before it wakes.
IDLE_TRANSACTION_TIMEOUT_S = int(float(os.environ["GLOVE_LEASE_S"]))
LOCK_TIMEOUT_S = 2 * IDLE_TRANSACTION_TIMEOUT_S
DATABASES["default"]["OPTIONS"]["options"] = (
    f"-c lock_timeout={LOCK_TIMEOUT_S}s -c idle_in_transaction_session_timeout={IDLE_TRANSACTION_TIMEOUT_S}s"
)
