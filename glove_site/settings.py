"""Settings, all of them by environment; docs/how-to/run.md lists what an operator may set."""

import os
from pathlib import Path
from urllib.parse import urlsplit

from glove_site import env, logs

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = env.folder("GLOVE_VAR", BASE_DIR / "var")

DEBUG = env.flag("DEBUG", True)
SECRET_KEY = env.secret_key(DEBUG, VAR_DIR)
PUBLIC_URL = env.web_address("PUBLIC_URL", "http://127.0.0.1:8000")
_public = urlsplit(PUBLIC_URL)
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS") or ["localhost", "127.0.0.1", "[::1]", _public.hostname or "localhost"]
CSRF_TRUSTED_ORIGINS = [f"{_public.scheme}://{_public.netloc}"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_celery_beat",
    "ninja",
    "inbox",
    "agents",
    "mesh",
    "glove_site",
    *(["demo"] if env.flag("GLOVE_DEMO", DEBUG) else []),
    *env.django_apps("GLOVE_APPS"),
]

MIDDLEWARE = [
    "glove_site.health.HealthMiddleware",
    "inbox.http.middleware.ProblemMiddleware",
    "inbox.http.middleware.SafetyMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "glove_site.static_files.StaticFiles",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "glove_site.urls"
ASGI_APPLICATION = "glove_site.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

# --- The database: the truth. SQLite serves one machine, Postgres many.
DATABASE_URL = env.text("DATABASE_URL") or f"sqlite:///{VAR_DIR / 'db.sqlite3'}"
DATABASES = {"default": env.database("DATABASE_URL", DATABASE_URL)}
_database = DATABASES["default"]
WORKER_THREADS = env.whole("GLOVE_WORKER_THREADS", 32)
LOCK_TIMEOUT_S = 5
IDLE_TRANSACTION_TIMEOUT_S = 15
if _database["ENGINE"].endswith("sqlite3"):
    # IMMEDIATE: a transaction takes the write lock at once, or two readers that turn writers fail each other.
    _database["OPTIONS"] = {
        "timeout": 20,
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }
else:
    _database["OPTIONS"] = {
        **_database.get("OPTIONS", {}),
        "prepare_threshold": 5,  # for the statements of every turn, see inbox/services/statements.py
        "pool": {"min_size": 0, "max_size": 2 * WORKER_THREADS + 8, "timeout": 20},
        # A stopped worker must not hold its own recovery up: its locks end with its idle session.
        "options": f"-c lock_timeout={LOCK_TIMEOUT_S}s -c idle_in_transaction_session_timeout={IDLE_TRANSACTION_TIMEOUT_S}s",
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "auth.User"
if not DEBUG:
    AUTH_PASSWORD_VALIDATORS = [
        {"NAME": f"django.contrib.auth.password_validation.{name}"}
        for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
    ]

# --- The broker: a doorbell. Without REDIS_URL it lives in the memory of `manage.py serve`.
REDIS_URL = env.redis_address("REDIS_URL")
CELERY_BROKER_URL = REDIS_URL or "memory://localhost/"
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, float] = (
    {"socket_timeout": 5, "socket_keepalive": True, "health_check_interval": 10}
    if REDIS_URL
    else {"polling_interval": 0.02}
)
CELERY_TASK_DEFAULT_QUEUE = env.text("GLOVE_QUEUE", "glove")
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False  # rows give durability; a redelivered doorbell would only repeat a poison task
CELERY_TASK_REJECT_ON_WORKER_LOST = False
CELERY_WORKER_CONCURRENCY = WORKER_THREADS
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"
CELERY_TIMEZONE = "UTC"

# --- Time, language, static files
USE_TZ = True
TIME_ZONE = env.time_zone("TIME_ZONE", "UTC")
LANGUAGE_CODE = "en"
STATIC_URL = "static/"
STATICFILES_DIRS: list[Path] = []
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False

# --- Who is in
LOGIN_URL = "/login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login"
_https = _public.scheme == "https"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = _https
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _https else None
SECURE_REFERRER_POLICY = "same-origin"
# HSTS binds every later visit to the domain, so it is for the operator's proxy to promise.
SILENCED_SYSTEM_CHECKS = ["security.W004"]
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024

# --- Mail to staff
EMAIL_HOST = os.environ.get("EMAIL_HOST", "")
EMAIL_PORT = env.whole("EMAIL_PORT", 25)
EMAIL_HOST_USER = os.environ.get("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD = os.environ.get("EMAIL_HOST_PASSWORD", "")
EMAIL_USE_TLS = env.flag("EMAIL_USE_TLS", False)
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.text("DEFAULT_FROM_EMAIL", "glove@localhost")

# --- The inbox
INBOX_NOTIFIERS = {
    "default": {
        "BACKEND": f"inbox.notifiers.{'email.EmailNotifier' if EMAIL_HOST else 'null.NullNotifier'}",
        "OPTIONS": {},
    }
}
INBOX_OWNER_TAGS: list[str] = env.words("INBOX_OWNER_TAGS")  # tag patterns that the mailbox's owner may answer
INBOX_MAX_OPEN_ITEMS = 20  # per mailbox
INBOX_EARLY_ANSWER_S = 24 * 3600  # how long an answer waits for its request

# --- The agents
GLOVE_MODEL = env.text("GLOVE_MODEL", "claude-sonnet-5-5")
_scripted = {"BACKEND": "agents.adapters.scripted.ScriptedModel", "OPTIONS": {"script": "demo.script.reply"}}
if "demo" not in INSTALLED_APPS:
    _scripted["OPTIONS"] = {}
_anthropic = {"BACKEND": "agents.adapters.anthropic.AnthropicModel", "OPTIONS": {"model": GLOVE_MODEL}}
AGENT_MODELS = {
    "anthropic": _anthropic,
    "scripted": _scripted,
    "default": _anthropic if os.environ.get("ANTHROPIC_API_KEY") else _scripted,
}
# Overrides of agents.limits.Limits. A lost worker's turn is taken up after its lease.
AGENT_LIMITS: dict[str, float] = {"lease_s": env.seconds("GLOVE_LEASE_S", 30)}
# Prices per million tokens, by the model's id or a prefix of it: {"claude-...": {"input": 3, "output": 15, "cache_read": 0.3,
# "cache_write": 3.75}}. A model that is not named costs nothing in the ledger.
AGENT_PRICES: dict[str, dict[str, float]] = env.prices("GLOVE_PRICES")
SWEEP_EVERY_S = env.seconds("GLOVE_SWEEP_EVERY_S", 15)
# A due turn that was rung and did not start is rung again after this: by the sweep, so at the latest lease + idle timeout + sweep
# after it was due.
RING_AGAIN_S = env.seconds("GLOVE_RING_AGAIN_S", AGENT_LIMITS["lease_s"] + IDLE_TRANSACTION_TIMEOUT_S)

# --- Logging
LOGGING = logs.configuration(debug=DEBUG, level=env.one_of("LOG_LEVEL", ("DEBUG", "INFO", "WARNING", "ERROR"), "INFO"))

# --- The mesh
MESH_TRANSPORTS = {"default": {"BACKEND": "mesh.transports.database.DatabaseTransport", "OPTIONS": {}}}
MESH_LIMITS: dict[str, int] = {}  # overrides of mesh.limits.MeshLimits
