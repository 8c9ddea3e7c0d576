"""Reading the environment, with one clear error for a value that cannot be used. A blank is the default, but for flags.

What may hold a password is not repeated in the error.
"""

import importlib.util
import json
import math
import os
import secrets
import tempfile
import zoneinfo
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

DATABASES = ("django.db.backends.sqlite3", "django.db.backends.postgresql")
PRICED = ("input", "output", "cache_read", "cache_write")


def text(name: str, default: str = "") -> str:
    """The value without blanks around it; the default where none is given."""
    return os.environ.get(name, "").strip() or default


def flag(name: str, default: bool) -> bool:
    """`1` or `0`; anything else is an error that says so. Also a blank, as an env file leaves it that was not filled in: it must
    not switch debugging on."""
    if name not in os.environ:
        return default
    value = os.environ[name].strip()
    if value not in ("0", "1"):
        raise ImproperlyConfigured(f"{name}={value!r}: write 1 or 0.")
    return value == "1"


def seconds(name: str, default: float) -> float:
    """A positive number of seconds."""
    value = text(name)
    try:
        number = float(value) if value else float(default)
    except ValueError:
        number = 0
    if not 0 < number < float("inf"):
        raise ImproperlyConfigured(f"{name}={value!r}: write a number of seconds above 0.")
    return number


def whole(name: str, default: int) -> int:
    """A whole number above 0."""
    value = text(name)
    if value and not (value.isascii() and value.isdecimal() and int(value)):
        raise ImproperlyConfigured(f"{name}={value!r}: write a whole number above 0.")
    return int(value) if value else default


def one_of(name: str, choices: tuple[str, ...], default: str) -> str:
    """One of these words; capitals and small letters are the same."""
    value = text(name).upper() or default
    if value not in choices:
        raise ImproperlyConfigured(f"{name}={value!r}: write one of {', '.join(choices)}.")
    return value


def folder(name: str, default: Path) -> Path:
    """A folder, made where it is not there."""
    path = Path(text(name) or default)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(
            f"{name}: the folder {str(path)!r} cannot be made: {error.strerror}. Write one that this user may write to."
        ) from error
    return path


def time_zone(name: str, default: str) -> str:
    """The name of a time zone that this machine knows."""
    value = text(name, default)
    try:
        zoneinfo.ZoneInfo(value)
    except (LookupError, ValueError, OSError) as error:  # unknown, or no name at all: a path, a folder of names
        raise ImproperlyConfigured(
            f"{name}={value!r}: write the name of a time zone, such as Europe/Berlin."
        ) from error
    return value


def web_address(name: str, default: str) -> str:
    """Where people reach the site, without a slash at the end."""
    value = text(name, default)
    address = _split(value)
    if not address or address.scheme not in ("http", "https") or address.query or address.fragment:
        raise ImproperlyConfigured(
            f"{name}={value!r}: write the address that people type, with http or https: https://glove.example."
        )
    return value.rstrip("/")


def redis_address(name: str) -> str:
    """Where Redis is; empty where there is none."""
    value = text(name)
    address = _split(value)
    if value and (not address or address.scheme not in ("redis", "rediss")):
        raise ImproperlyConfigured(
            f"{name} is not the address of a Redis: write redis://host:6379/0, or rediss:// for TLS."
        )
    return value


def database(name: str, url: str) -> dict[str, Any]:
    """Django's settings of the database at this address, which the variable `name` gave."""
    try:
        found: dict[str, Any] = dict(dj_database_url.parse(url, conn_max_age=0))
    except ValueError:
        found = {}
    if found.get("ENGINE") not in DATABASES or not (found.get("NAME") or "service" in found.get("OPTIONS", {})):
        raise ImproperlyConfigured(
            f"{name} is not the address of a database: write postgres://user:password@host:5432/name, with signs such as @ "
            "and / in the password as %40 and %2F, or sqlite:////folder/file.sqlite3."
        )
    return found


def prices(name: str) -> dict[str, dict[str, float]]:
    """Prices of models, as JSON."""
    try:
        found = json.loads(text(name, "{}"))
        if all(_is_price(kind, value) for price in found.values() for kind, value in price.items()):
            return found
    except (ValueError, AttributeError):  # no JSON, or not an object of objects
        pass
    raise ImproperlyConfigured(
        f"{name}: write JSON with a price per million tokens for each kind ({', '.join(PRICED)}): "
        '{"claude-sonnet": {"input": 3, "output": 15}}.'
    )


def _is_price(kind: str, value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return kind in PRICED and number and math.isfinite(value) and value >= 0


def _split(value: str) -> SplitResult | None:
    """The parts of an address that names a host, and a port that is one where it names one."""
    try:
        address = urlsplit(value)
        return address if address.hostname and address.port != 0 else None
    except ValueError:
        return None


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
    return [word.strip() for word in text(name).split(",") if word.strip()]


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
