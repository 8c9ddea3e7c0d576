"""The rules of the code as tests: who imports whom, who writes, no forgotten migration, no warning at start-up."""

import io
import subprocess
import sys

import pytest
from django.apps import apps
from django.core.management import call_command
from importlinter.api import read_configuration
from importlinter.cli import lint_imports

from tests.environment import ROOT

CONFIGURATION = str(ROOT / "pyproject.toml")
OURS = [config for config in apps.get_app_configs() if (ROOT / config.name).is_dir()]


def test_imports_keep_to_the_contracts(capsys):
    status = lint_imports(config_filename=CONFIGURATION, no_cache=True, no_logo=True)
    assert status == 0, capsys.readouterr().out


def test_every_app_of_ours_is_under_the_contracts():
    configuration = read_configuration(CONFIGURATION)
    ours = {config.name for config in OURS}
    assert set(configuration["session_options"]["root_packages"]) == ours
    inside = next(contract for contract in configuration["contracts_options"] if contract["id"] == "inside")
    assert set(inside["containers"]) == ours


@pytest.mark.django_db
def test_no_migration_is_missing():
    call_command("makemigrations", check=True, dry_run=True, stdout=io.StringIO())


@pytest.mark.parametrize("debug", ["1", "0"])
def test_checks_are_silent(debug, child_environment):
    """As an operator starts it: `manage.py check` in a process of its own, warnings are failures."""
    command = [sys.executable, "manage.py", "check", "--fail-level", "WARNING", *(["--deploy"] if debug == "0" else [])]
    environment = {
        **child_environment,
        "DEBUG": debug,
        "PUBLIC_URL": "https://glove.example",
        "ANTHROPIC_API_KEY": "not-a-real-one",
    }
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
