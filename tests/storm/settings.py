"""The site with the storm's agent, for child processes of the tests. Short timeouts, so that a stopped worker's locks end soon."""

from glove_site.settings import *  # noqa: F403
from glove_site.settings import DATABASES, INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.storm"]
AGENT_MODELS = {
    "default": {
        "BACKEND": "agents.adapters.scripted.ScriptedModel",
        "OPTIONS": {"script": "tests.storm.model.reply"},
    }
}
IDLE_TRANSACTION_TIMEOUT_S = 3
if DATABASES["default"]["ENGINE"].endswith("postgresql"):
    DATABASES["default"]["OPTIONS"]["options"] = (
        f"-c lock_timeout=3s -c idle_in_transaction_session_timeout={IDLE_TRANSACTION_TIMEOUT_S}s"
    )
