"""What works and is not meant for production is told where an operator looks."""

import json

import pytest
from django.core.checks import run_checks

from glove_site.checks import check_model
from tests.processes import plain_environment
from tests.site.site import CELERY

ECHO = {"default": {"BACKEND": "agents.adapters.scripted.ScriptedModel", "OPTIONS": {}}}


def test_check_deploy_names_what_to_set(settings):
    settings.AGENT_MODELS = ECHO
    [found] = [message for message in run_checks(include_deployment_checks=True) if message.id == "glove_site.W001"]
    assert "ANTHROPIC_API_KEY" in found.hint
    assert found.id not in [message.id for message in run_checks()]


@pytest.mark.parametrize(
    "default",
    [
        {"BACKEND": ECHO["default"]["BACKEND"], "OPTIONS": {"script": "demo.script.reply"}},  # somebody wants it so
        {"BACKEND": "agents.adapters.anthropic.AnthropicModel", "OPTIONS": {}},
        {"BACKEND": "shop.models.Ours"},
    ],
)
def test_it_is_silent_where_a_model_was_chosen(settings, default):
    settings.AGENT_MODELS = {"default": default}
    assert check_model() == []


@pytest.mark.slow
@pytest.mark.parametrize("serve", [False, True])
def test_a_worker_says_it_when_it_starts(start, tmp_path, free_port, serve):
    environment = plain_environment(DEBUG="0", GLOVE_VAR=str(tmp_path), PUBLIC_URL="http://127.0.0.1")
    if serve:
        child = start("manage.py", "serve", "--port", str(free_port), env=environment)
    else:
        child = start("worker", "-P", "threads", env=environment, command=CELERY)
    child.wait_for("glove_site.W001")
    [line] = [json.loads(line) for line in child.output.splitlines() if "glove_site.W001" in line]
    assert line["level"] == "warning"
    assert "ANTHROPIC_API_KEY" in line["event"]
    child.stop()
