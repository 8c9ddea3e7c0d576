"""AGENT_MODELS: who is built, once, and what is said of a wrong one."""

import subprocess
import sys

import pytest
from django.core.exceptions import ImproperlyConfigured

from agents.adapters import check_models, get_model
from agents.adapters.scripted import ScriptedModel
from tests.environment import ROOT

SCRIPTED = "agents.adapters.scripted.ScriptedModel"
ANTHROPIC = "agents.adapters.anthropic.AnthropicModel"


@pytest.fixture
def models(settings):
    def declare(**aliases):
        settings.AGENT_MODELS = aliases

    return declare


def test_one_instance_until_the_setting_changes(models):
    models(default={"BACKEND": SCRIPTED})
    first = get_model("default")
    assert isinstance(first, ScriptedModel)
    assert get_model("default") is first
    models(default={"BACKEND": SCRIPTED, "OPTIONS": {"delay": 0}})
    assert get_model("default") is not first


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"other": {"BACKEND": SCRIPTED}}, "No model 'default' in AGENT_MODELS. It has other."),
        ({}, "It has none."),
        ({"default": {"BACKEND": "nowhere.Model"}}, "cannot be imported"),
        ({"default": {}}, "cannot be imported"),
        ({"default": {"BACKEND": "datetime.date"}}, "is not a ModelAdapter"),
    ],
)
def test_a_wrong_declaration_says_what_is_wrong(models, declared, said):
    models(**declared)
    with pytest.raises(ImproperlyConfigured, match=said):
        get_model("default")
    assert [found.id for found in check_models(["default"])] == ["agents.E200"]


@pytest.mark.parametrize(
    ("backend", "options", "ids"),
    [
        (SCRIPTED, {}, []),
        (SCRIPTED, {"scrpt": "x"}, ["agents.E201"]),
        (SCRIPTED, {"script": "nowhere.reply"}, ["agents.E207"]),
        (SCRIPTED, {"script": "agents.adapters.blocks.MAX_DEPTH"}, ["agents.E207"]),
        (ANTHROPIC, {"model": "m", "api_key": "k"}, []),
        (ANTHROPIC, {"model": "m"}, ["agents.W206"]),
        (ANTHROPIC, {"api_key": "k"}, ["agents.E204"]),
        (ANTHROPIC, {"model": "m", "api_key": "k", "base_url": "localhost:1"}, ["agents.E203"]),
        (ANTHROPIC, {"model": "m", "api_key": "k", "cache": "2d"}, ["agents.E205"]),
        (ANTHROPIC, {"model": "m", "api_key": "k", "max_retries": 3}, ["agents.E201"]),
    ],
)
def test_checks_name_what_is_wrong(models, backend, options, ids):
    models(default={"BACKEND": backend, "OPTIONS": options})
    assert [found.id for found in check_models(["default", "default"])] == ids


def test_the_sdk_is_imported_by_the_first_call_only():
    code = (
        "import sys; from django.conf import settings; settings.configure(AGENT_MODELS={'a': {'BACKEND': '%s', 'OPTIONS': {}}})\n"
        "from agents.adapters import check_models, get_model; get_model('a'); check_models(['a'])\n"
        "assert 'agents.adapters.anthropic' in sys.modules; assert 'anthropic' not in sys.modules, 'imported'"
    )
    subprocess.run([sys.executable, "-c", code % ANTHROPIC], cwd=ROOT, check=True)
