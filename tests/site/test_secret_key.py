"""The secret of a first start: made once, whole, for one user's eyes."""

import os
import stat

import pytest
from django.core.exceptions import ImproperlyConfigured

from glove_site import env
from tests.database import run_race


@pytest.fixture(autouse=True)
def none_given(monkeypatch):
    monkeypatch.delenv("SECRET_KEY", raising=False)


def test_it_is_made_once_and_kept(tmp_path):
    first = env.secret_key(True, tmp_path)
    assert len(first) >= 50
    assert env.secret_key(True, tmp_path) == first
    [kept] = tmp_path.iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_without_debug_it_has_to_be_given(tmp_path, monkeypatch):
    with pytest.raises(ImproperlyConfigured):
        env.secret_key(False, tmp_path)
    monkeypatch.setenv("SECRET_KEY", "given")
    assert env.secret_key(False, tmp_path) == "given"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.django_db(transaction=True)
def test_processes_that_start_together_agree(tmp_path):
    found = run_race(8, lambda index: env.secret_key(True, tmp_path))
    assert not found.errors
    assert len(set(found.results)) == 1


def test_a_start_that_is_killed_leaves_no_empty_key(tmp_path, monkeypatch):
    def killed(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(env.secrets, "token_urlsafe", killed)
        with pytest.raises(KeyboardInterrupt):
            env.secret_key(True, tmp_path)
    assert os.listdir(tmp_path) == []
    assert len(env.secret_key(True, tmp_path)) >= 50
