"""Reading the environment, with one clear error for a value that cannot be used."""

import importlib.util
import os
import secrets
import tempfile
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured


def flag(name: str, default: bool) -> bool:
    """`1` or `0` from the environment; anything else is an error that says so."""
    value = os.environ.get(name, "").strip()
    if value == "":
        return default
    if value not in ("0", "1"):
        raise ImproperlyConfigured(f"{name}={value!r}: write 1 or 0.")
    return value == "1"


def seconds(name: str, default: float) -> float:
    """A positive number of seconds."""
    value = os.environ.get(name, "").strip()
    try:
        number = float(value) if value else float(default)
    except ValueError:
        number = 0
    if not 0 < number < float("inf"):
        raise ImproperlyConfigured(f"{name}={value!r}: write a number of seconds above 0.")
    return number


def whole(name: str, default: int) -> int:
    """A whole number above 0."""
    value = os.environ.get(name, "").strip()
    if value and not (value.isascii() and value.isdecimal() and int(value)):
        raise ImproperlyConfigured(f"{name}={value!r}: write a whole number above 0.")
    return int(value) if value else default


def one_of(name: str, choices: tuple[str, ...], default: str) -> str:
    """One of these words; capitals and small letters are the same."""
    value = os.environ.get(name, "").strip().upper() or default
    if value not in choices:
        raise ImproperlyConfigured(f"{name}={value!r}: write one of {', '.join(choices)}.")
    return value


def django_apps(name: str) -> list[str]:
    """A comma-separated list of Django apps that Python can find."""
    for app in (found := words(name)):
        if importlib.util.find_spec(app.partition(".")[0]) is None:
            raise ImproperlyConfigured(
                f"{name} names {app!r}, and Python finds no such package. Put its folder beside manage.py, or install it."
            )
    return found


def words(name: str) -> list[str]:
    """A comma-separated list, blanks dropped."""
    return [word.strip() for word in os.environ.get(name, "").split(",") if word.strip()]


def secret_key(debug: bool, folder: Path) -> str:
    """SECRET_KEY; with DEBUG=1 and none given, one is made once and kept in an ignored file."""
    if key := os.environ.get("SECRET_KEY"):
        return key
    if not debug:
        raise ImproperlyConfigured(
            "SECRET_KEY is not set. With DEBUG=0 it must be: a long random string, kept private."
        )
    path = folder / "secret_key"
    if not path.exists():
        _make_secret(path)
    return path.read_text().strip()


def _make_secret(path: Path) -> None:
    """Written whole and then given its name, which fails where another process was first: none reads a half, and one that is
    killed in between leaves no empty key behind."""
    descriptor, draft = tempfile.mkstemp(dir=path.parent)  # for this user's eyes only
    try:
        with open(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(50))
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(draft)
