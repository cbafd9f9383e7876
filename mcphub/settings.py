"""Every setting of the hub. The environment is read here and nowhere else; docs/operate/deployment.md lists it all.

Weekly changes are rows in the admin; settings of the deployment are here.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import global_settings
from django.core.exceptions import ImproperlyConfigured
from django.templatetags.static import static
from django.urls import reverse_lazy
from django.utils.translation import gettext_lazy as _

from mcphub import environment as env
from mcphub import feature_list, given, moved
from mcphub.parts import SchemaEnum
from tools_catalog import encryption_keys

# Where things are ------------------------------------------------------------------------------------

BASE_DIR = Path(__file__).resolve().parent.parent
MCPHUB_DATA_DIR = env.folder("MCPHUB_DATA_DIR", "var")
MCPHUB_VERSION = "1.0.0"
MCPHUB_EMBEDDED = False
"""True in a host project: mcphub/embedding/host.py takes the hub's settings from here."""
MCPHUB_FOLLOW_PEOPLE = True
"""Edits of people and groups are recorded in the history. A host may set it off."""
MCPHUB_CHILDREN_DIR = Path(env.text("MCPHUB_CHILDREN_DIR", str(MCPHUB_DATA_DIR / "children"))).absolute()
MCPHUB_CHILDREN_WRITABLE = env.folders("MCPHUB_CHILDREN_WRITABLE")
MCPHUB_WORKLOAD_TOKENS = env.text("MCPHUB_WORKLOAD_TOKENS", "")

limits = MCPHUB_LIMITS = env.Limits("MCPHUB_LIMITS")
"""Bounds that few deployments change; docs/operate/limits.md has their names."""

# Secrets: made once under the data directory ---------------------------------------------------------

MCPHUB_SECRET_KEY_FILE = Path(env.text("MCPHUB_SECRET_KEY_FILE", str(MCPHUB_DATA_DIR / "secret_key")))
SECRET_KEY = given.secret_key() or env.secret(MCPHUB_SECRET_KEY_FILE)
MCPHUB_ENCRYPTION_KEY_FILE = Path(env.text("MCPHUB_ENCRYPTION_KEY_FILE", str(MCPHUB_DATA_DIR / "encryption_keys")))

MCPHUB_ENCRYPTION_KEYS = encryption_keys.parse(env.secret(MCPHUB_ENCRYPTION_KEY_FILE, 64))

# Database --------------------------------------------------------------------------------------------

MCPHUB_DATABASE_URL = env.text("MCPHUB_DATABASE_URL", f"sqlite:///{MCPHUB_DATA_DIR / 'hub.sqlite3'}")
DATABASES = {"default": env.database("MCPHUB_DATABASE_URL", MCPHUB_DATABASE_URL)}
_engine = DATABASES["default"]["ENGINE"]
if _engine.endswith("sqlite3"):
    if _moved := moved.why_not(Path(DATABASES["default"]["NAME"])):
        raise ImproperlyConfigured(_moved)
    DATABASES["default"]["OPTIONS"] |= given.SQLITE_OPTIONS
    # A file, so that the ledger's own connection sees what a test wrote.
    DATABASES["default"]["TEST"] = {"NAME": str(MCPHUB_DATA_DIR / "test.sqlite3")}
elif _engine.endswith("postgresql"):
    DATABASES["default"]["OPTIONS"] |= {"pool": {"min_size": 1, "max_size": 8, "timeout": 3}}
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True  # a restart of PostgreSQL leaves a pool of dead connections
    # A pooler gives each transaction another session of PostgreSQL, and a cursor on the server outlives one.
    DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = bool(env.text("MCPHUB_DATABASE_DIRECT_URL"))
else:
    raise ImproperlyConfigured("MCPHUB_DATABASE_URL names neither SQLite nor PostgreSQL; the hub runs on these two.")
if _replica := env.further_database("MCPHUB_AUDIT_DATABASE_URL", _engine, "a replica of PostgreSQL"):
    # A replica that auditors read: see sessions_app/kit/replica.py.
    _pool = {"OPTIONS": {**_replica["OPTIONS"], "pool": {"min_size": 1, "max_size": 8, "timeout": 3}}}
    _safe = {"CONN_HEALTH_CHECKS": True, "DISABLE_SERVER_SIDE_CURSORS": True}
    DATABASES["audit"] = {**_replica, **_pool, **_safe, "TEST": {"MIRROR": "default"}}
    DATABASE_ROUTERS = ["sessions_app.kit.replica.ReplicaRouter"]
MCPHUB_DIRECT_DATABASE = env.further_database("MCPHUB_DATABASE_DIRECT_URL", _engine, "PostgreSQL behind a pooler")
"""The same database past a pooler, as an entry of DATABASES; empty where there is no pooler."""
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Applications, floor by floor ------------------------------------------------------------------------

MCPHUB_FEATURES = feature_list.on()
"""The features that are on, by the names of their folders under mcphub/features."""
INSTALLED_APPS = [
    # For `runserver` alone: elsewhere its imports would only cost a fifth of a second of every start.
    *(["daphne"] if "runserver" in sys.argv else []),
    "unfold.apps.BasicAppConfig",
    "unfold.contrib.filters",
    "mcphub.apps.AdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_svelte_jsoneditor",
    "channels",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "oauth2_provider",
    "sessions_app",
    "tools_catalog",
    "invocations",
    "mcphub.standalone",  # before `mcphub`, whose commands of the same names are for hosts
    "mcphub",
    *(f"mcphub.features.{name}" for name in MCPHUB_FEATURES),
]
MCPHUB_APPS = env.modules("MCPHUB_APPS")
"""Apps of the operator's own: the tools that their `tools.py` registers can be put into the catalogue."""
INSTALLED_APPS += MCPHUB_APPS
MCPHUB_RELOAD = env.flag("MCPHUB_RELOAD")
"""Set by `serve --reload`: a start takes the functions of these apps into the catalogue, and follows them."""

MIDDLEWARE = [
    "mcphub.rest.correlation.correlated",
    "django.middleware.security.SecurityMiddleware",
    "mcphub.content_security.ContentPolicy",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "sessions_app.history.source.edit_source",
    "sessions_app.workspaces.acting.in_workspace",
]

ROOT_URLCONF = "mcphub.urls"
ASGI_APPLICATION = "mcphub.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "mcphub" / "templates"],  # a link in a checkout, a folder where the hub is installed
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "mcphub.console.verdict.shown",
                "mcphub.console.navigation.placed",
                "mcphub.console.banners.shown",
            ],
            # Named here, and in no `templatetags`: the engine of a host loads those, and a host may have any Unfold.
            "libraries": {"hub_console": "mcphub.console.tags"},
        },
    }
]

# Who may connect -------------------------------------------------------------------------------------

DEBUG = env.flag("MCPHUB_DEBUG")
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
ALLOWED_HOSTS = [*_LOOPBACK, *env.names("MCPHUB_ALLOWED_HOSTS")]
"""Host names without port; `.example.com` admits subdomains. The MCP endpoints check them themselves."""
MCPHUB_ALLOWED_ORIGINS = env.names("MCPHUB_ALLOWED_ORIGINS")
"""Origins that browsers may call from, besides pages of the allowed hosts; set by --cors."""
MCPHUB_ALLOW_ANONYMOUS = env.flag("MCPHUB_ALLOW_ANONYMOUS")
MCPHUB_API_KEY = env.text("MCPHUB_API_KEY")
"""The caller's key over stdio; the other transports take it from each request."""
MCPHUB_PUBLIC_URL = env.text("MCPHUB_PUBLIC_URL", "http://127.0.0.1:8000")
"""Where clients reach the hub; printed into client configurations."""
CSRF_FAILURE_VIEW = "mcphub.error_pages.unverified"
CSRF_TRUSTED_ORIGINS = [origin for origin in MCPHUB_ALLOWED_ORIGINS if origin != "*"]
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = MCPHUB_PUBLIC_URL.startswith("https://")
_COOKIES_OF = hashlib.sha256(b"names of cookies" + SECRET_KEY.encode()).hexdigest()[:8]
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = f"mcphub_admin_{_COOKIES_OF}", f"mcphub_csrf_{_COOKIES_OF}"
HUB_DENSITY_COOKIE_NAME = f"mcphub_density_{_COOKIES_OF}"
"""Browsers give a cookie to every port of a host: hubs beside each other would take each other's logins away."""
SESSION_ENGINE = "sessions_app.login.session_store"
SESSION_COOKIE_AGE = limits.whole("login_idle_seconds", 2 * 3600, least=1, most=30 * 86400)
"""A login of the console ends when it was not used for so long."""
MCPHUB_LOGIN_SECONDS = limits.whole("login_seconds", 12 * 3600, least=1, most=366 * 86400)
"""The whole life of a login of the console, however busy."""
AUTHENTICATION_BACKENDS = ["sessions_app.login.hashing.PasswordBackend"]
SECURE_HSTS_SECONDS = 31_536_000 if SESSION_COOKIE_SECURE else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = SESSION_COOKIE_SECURE
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env.flag("MCPHUB_BEHIND_PROXY") else None
MCPHUB_PROXIES = env.networks(
    "MCPHUB_PROXIES", ("127.0.0.0/8", "::1", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
)
"""Proxies whose X-Forwarded headers count with MCPHUB_BEHIND_PROXY; the last foreign address is the client's."""
X_FRAME_OPTIONS = "DENY"
SILENCED_SYSTEM_CHECKS = [
    "security.W008",  # the proxy that ends TLS redirects to https
    "oauth2_provider.W008",  # clients may wait at http on loopback, and nowhere else: mcphub/features/signin/clients.py
]
LOGIN_URL = reverse_lazy("admin:login")
LOGIN_REDIRECT_URL = reverse_lazy("admin:index")
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

MCPHUB_SECOND_FACTOR = env.choice("MCPHUB_SECOND_FACTOR", "optional", ["optional", "console", "everybody"])
"""People who must log in with a second factor besides a password: nobody, console users, all. Groups can ask too."""

# Signing in ------------------------------------------------------------------------------------------

MCPHUB_SIGN_IN = env.flag("MCPHUB_SIGN_IN", True)
"""Whether people let clients in by a login; off: clients need keys."""
MCPHUB_CLIENT_REGISTRATION = env.flag(
    "MCPHUB_CLIENT_REGISTRATION", urlsplit(MCPHUB_PUBLIC_URL).hostname in ("localhost", "127.0.0.1", "::1")
)
"""Whether clients may register themselves (RFC 7591): by default on loopback alone."""
MCPHUB_MAX_CLIENT_REGISTRATIONS = limits.whole("max_client_registrations", 1000, least=1, most=100_000)
"""Clients that registered themselves or came with a document. Those that nobody uses go first."""
MCPHUB_REDIRECT_SCHEMES = env.names("MCPHUB_REDIRECT_SCHEMES")
"""Schemes of applications, such as `zed`, that a login may lead back to, besides those the hub knows."""
MCPHUB_ACCESS_TOKEN_SECONDS = limits.whole("access_token_seconds", 3600, least=60, most=3600)
MCPHUB_SIGN_IN_DAYS = limits.whole("sign_in_days", 30, least=1, most=366)
"""So long after its last use a client must ask the person to sign in again."""
PASSWORD_HASHERS = [*global_settings.PASSWORD_HASHERS, "mcphub.features.signin.client_secrets.ClientSecretHasher"]
OAUTH2_PROVIDER_APPLICATION_MODEL = "oauth2_provider.Application"  # named for those who make migrations
OAUTH2_PROVIDER = {
    "OIDC_ISS_ENDPOINT": MCPHUB_PUBLIC_URL.rstrip("/"),  # the issuer's name; no OpenID provider comes with it
    "OAUTH2_SERVER_CLASS": "oauthlib.oauth2.WebApplicationServer",  # codes and refresh tokens, no other grants
    "OAUTH2_VALIDATOR_CLASS": "mcphub.features.signin.server.TokenRequestValidator",
    "ACCESS_TOKEN_GENERATOR": "mcphub.features.signin.server.access_token",
    "REFRESH_TOKEN_GENERATOR": "mcphub.features.signin.server.refresh_token",
    "CLIENT_SECRET_HASHER": "client_secret",
    "SCOPES": {"tools:list": "", "tools:call": "", "chat": ""},
    "DEFAULT_SCOPES": ["tools:list", "tools:call"],
    "AUTHORIZATION_CODE_EXPIRE_SECONDS": 60,
    "ACCESS_TOKEN_EXPIRE_SECONDS": MCPHUB_ACCESS_TOKEN_SECONDS,
    "REFRESH_TOKEN_EXPIRE_SECONDS": MCPHUB_SIGN_IN_DAYS * 86400,
    "REFRESH_TOKEN_REUSE_PROTECTION": True,
    "ALLOWED_REDIRECT_URI_SCHEMES": ["https", "http", "cursor", "vscode", "vscode-insiders", *MCPHUB_REDIRECT_SCHEMES],
    "ALLOW_LOCALHOST_LOOPBACK": True,
    "CIMD_ENABLED": True,
    "CIMD_METADATA_FETCHER": "mcphub.features.signin.client_documents.GuardedFetcher",
    "CIMD_REGISTRATION_PERMISSION_CLASSES": ("mcphub.features.signin.client_documents.OfPersons",),
    **{
        f"COMPLIANT_BCP_RFC9700_{name}": True
        for name in (
            "IMPLICIT_GRANT",
            "PASSWORD_GRANT",
            "PKCE_METHOD",
            "ACCESS_TOKEN_TRANSPORT",
            "AUTHZ_RESPONSE_ISS",
            "TOKEN_STORAGE",
            "REFRESH_TOKEN",
            "REDIRECT_URI_MATCHING",
            "PKCE_REQUIRED",
        )
    },
}

# Limits ----------------------------------------------------------------------------------------------

MCPHUB_MAX_BODY_BYTES = limits.whole("max_body_bytes", 4 * 1024 * 1024, least=1024, most=256 * 1024 * 1024)
"""nginx ships 1 MiB, the TypeScript MCP SDK 4 MB."""
MCPHUB_MAX_IMPORT_BYTES = limits.whole("max_import_bytes", 64 * 1024 * 1024, least=64 * 1024, most=1024 * 1024 * 1024)
"""The part of an API's description that an import needs; GitHub's has 12 MB, of which 2 are needed."""
MCPHUB_IMPORT_MEMORY_BYTES = limits.whole(
    "import_memory_bytes", 2 * 1024 * 1024 * 1024, least=256 * 1024 * 1024, most=64 * 1024 * 1024 * 1024
)
"""Of the process that reads a description."""
MCPHUB_BODY_TIMEOUT_SECONDS = limits.number("body_timeout_seconds", 15, least=0.1, most=600)
MCPHUB_CALL_TIMEOUT_SECONDS = env.number("MCPHUB_CALL_TIMEOUT_SECONDS", 60, least=0.1, most=3600)
"""Ceiling of every tool's own timeout; --request-timeout-ms."""
MCPHUB_ANSWER_SECONDS = limits.number("answer_seconds", 900, least=1, most=86_400)
"""Time limit of a stateless client for answering a tool: the life of a requestState."""
MCPHUB_HEARTBEAT_SECONDS = limits.number("heartbeat_seconds", 25, least=0.1, most=600)
"""How often an event stream brings a sign of life; --heartbeat-interval-ms."""
MCPHUB_MAX_CALLS = limits.whole("max_calls", 1000, least=1, most=100_000)
"""Calls under way in one process; above it `server_busy`."""
MCPHUB_MAX_CALLS_PER_CALLER = limits.whole("max_calls_per_caller", 0, least=0, most=100_000)
"""Of them those of one caller; 0: a fifth, so that nobody holds the places of all."""
MCPHUB_MAX_HEADER_BYTES = limits.whole("max_header_bytes", 64 * 1024, least=4096, most=1024 * 1024)
"""Address and headers of a request. Node.js takes 16 KiB, nginx 32 KiB; long tokens of proxies want more."""
MCPHUB_HEADER_TIMEOUT_SECONDS = limits.number("header_timeout_seconds", 10, least=0.1, most=600)
MCPHUB_MAX_CONNECTIONS = limits.whole("max_connections", 32_768, least=1, most=1_000_000)
"""Connections of clients to one process; fewer where the system's bound of open files is lower."""
MCPHUB_MAX_CONNECTIONS_PER_ADDRESS = limits.whole("max_connections_per_address", 0, least=0, most=1_000_000)
"""Of them those of one address; 0: half. Those of MCPHUB_PROXIES are not counted."""
MCPHUB_MAX_STREAMS = limits.whole("max_streams", 10_000, least=1, most=1_000_000)
"""Listening streams held by one process."""
MCPHUB_MAX_STREAMS_PER_CALLER = limits.whole("max_streams_per_caller", 2_000, least=1, most=1_000_000)
MCPHUB_MAX_CLIENTS = limits.whole("max_clients", 10, least=1, most=1_000_000)
"""Clients of the remote profile, in all processes together; --max-clients."""
MCPHUB_MAX_SESSIONS = limits.whole("max_sessions", 10_000, least=1, most=10_000_000)
MCPHUB_MAX_SESSIONS_PER_CALLER = limits.whole("max_sessions_per_caller", 2_000, least=1, most=10_000_000)
MCPHUB_SESSION_IDLE_SECONDS = limits.number("session_idle_seconds", 3600, least=1, most=30 * 86400)
MCPHUB_IDEMPOTENCY_HOURS = limits.whole("idempotency_hours", 48, least=24, most=24 * 366)
"""For so long the hub remembers the idempotency keys of callers."""
MCPHUB_ALIAS_DAYS = limits.whole("alias_days", 90, least=0, most=3650)
"""For so long a renamed tool or prompt is found by its former name; 0: not at all."""
MCPHUB_ALLOW_NOT_DURABLE = env.flag("MCPHUB_ALLOW_NOT_DURABLE")
"""Serve although records may be lost in a crash of the machine; stated in the log and by /ready."""
MCPHUB_MIGRATE = env.flag("MCPHUB_MIGRATE", True)
"""Whether a start brings the tables up to date; off where the hub's role in the database may not."""
MCPHUB_LEDGER_QUEUE = limits.whole("ledger_queue", 10_000, least=10, most=1_000_000)
MCPHUB_LEDGER_TIMEOUT_SECONDS = env.number("MCPHUB_LEDGER_TIMEOUT_SECONDS", 2, least=0.05, most=60)
MCPHUB_RECORDED_MIB_PER_DAY = limits.whole("recorded_mib_per_day", 65_536, least=0, most=2_000_000)
"""MiB of the audit that one caller's calls may fill, unless its key sets another limit; 0: no limit."""
MCPHUB_MIN_FREE_DISK_BYTES = limits.whole("min_free_disk_bytes", 256 * 1024 * 1024, least=0, most=2**62)
"""On the disk of a SQLite database; with less, calls are refused before it fails. 0: not watched."""
MCPHUB_AUDIT_DIR = Path(env.text("MCPHUB_AUDIT_DIR", str(MCPHUB_DATA_DIR / "audit")))
"""The key that signs the audit, its public keys and the published checkpoints. Secret, and to be backed up."""
MCPHUB_ARCHIVE_DIR = env.text("MCPHUB_ARCHIVE_DIR", str(MCPHUB_AUDIT_DIR / "archive"))
"""Where closed months are archived, and searched by the console and REST: a folder, or `s3://bucket/prefix`."""
MCPHUB_ARCHIVE_SEARCH_SECONDS = limits.number("archive_search_seconds", 20, least=0.1, most=600)
MCPHUB_ARCHIVE_SEARCH_MIB = limits.whole("archive_search_mib", 1024, least=1, most=1_000_000)
"""MiB of archived files that one search reads; the next page goes on from there."""
MCPHUB_ARCHIVE_SEARCH_MEMORY_MIB = limits.whole("archive_search_memory_mib", 256, least=64, most=65_536)
MCPHUB_SIGNING = env.signing(
    MCPHUB_AUDIT_DIR / "signing.key", limits.number("signing_seconds", 10, least=0.1, most=120)
)
"""Where the key is that signs the audit: made in MCPHUB_AUDIT_DIR, read once from elsewhere, or behind a command."""
MCPHUB_AUDIT_BODY_CHARACTERS = limits.whole("audit_body_characters", 1024 * 1024, least=1024, most=64 * 1024 * 1024)
"""Of arguments, result and error each so many characters of JSON are recorded; of a longer one besides its size and
digest."""
MCPHUB_AUDIT_EVERY_INTENT = env.flag("MCPHUB_AUDIT_EVERY_INTENT")
"""Commit an envelope before calls of read-only tools too, so that a call of a dead process is found as interrupted."""
MCPHUB_AUDIT_REFUSED_TEXT = env.flag("MCPHUB_AUDIT_REFUSED_TEXT")
"""Store the arguments of refused calls as text. Otherwise only digests are kept of arguments without a
schema.
"""
MCPHUB_SEAL_SECONDS = limits.number("seal_seconds", 1, least=0, most=3600)
"""How often new rows of the audit are sealed; 0: not by this process."""
MCPHUB_CHECKPOINT_SECONDS = limits.number("checkpoint_seconds", 60, least=0.1, most=86400)
"""How often a checkpoint leaves the database, while the log grows."""
MCPHUB_CHECKPOINT_FILE = env.text("MCPHUB_CHECKPOINT_FILE", "")
"""Checkpoints are appended here, to be compared with; empty: `checkpoints` in MCPHUB_AUDIT_DIR. Best: another disk."""
MCPHUB_CHECKPOINT_SYSLOG = env.address(
    "MCPHUB_CHECKPOINT_SYSLOG", ("udp", "tcp", "unix"), "udp://log.example:514, tcp://log.example:601 or unix:/dev/log"
)
"""Checkpoints go here too, as messages of RFC 5424."""
MCPHUB_CHECKPOINT_WEBHOOK = env.address("MCPHUB_CHECKPOINT_WEBHOOK", ("https",), "https://witness.example/checkpoints")
"""Checkpoints go here too, as POSTs of the signed note. Of loopback `http` is taken as well."""
MCPHUB_CHECKPOINT_TRIES = limits.whole("checkpoint_tries", 5, least=1, most=1000)
"""So many tries of one place may fail before that is an alarm."""
MCPHUB_VERIFY_SECONDS = limits.number("verify_seconds", 300, least=0.1, most=86400)
"""How often the log is compared with the checkpoints outside the database, and a part of it verified."""
MCPHUB_SHIPPING = env.flag("MCPHUB_SHIPPING", True)
"""Whether this hub may start the process that ships the audit to its targets."""
MCPHUB_SHIPPING_DIR = Path(env.text("MCPHUB_SHIPPING_DIR", str(MCPHUB_DATA_DIR / "shipped")))
"""Folders that targets of shipping write files into are made here, and nowhere else."""
MCPHUB_SHIPPING_BEHIND_SECONDS = limits.number("shipping_behind_seconds", 600, least=1, most=30 * 86400)
"""A destination without rows sealed this long ago is named by /ready and in the log."""
MCPHUB_TOOL_THREADS = limits.whole("tool_threads", 16, least=1, most=512)
MCPHUB_FOLLOW_SECONDS = limits.number("follow_seconds", 0.1, least=0.01, most=0.25)
"""How often a process asks the database whether the configuration moved."""
MCPHUB_DRAIN_SECONDS = limits.number("drain_seconds", 20, least=0, most=600)
MCPHUB_LIST_PAGE_SIZE = limits.whole("list_page_size", 1000, least=1, most=100_000)
"""Entries on one page of tools/list, resources/list and their like."""
MCPHUB_MAX_RESOURCE_BYTES = limits.whole("max_resource_bytes", 4 * 1024 * 1024, least=1024, most=64 * 1024 * 1024)
"""The maximum result of one resources/read or prompts/get; stored content too."""
MCPHUB_MAX_SUBSCRIPTIONS = limits.whole("max_subscriptions", 1000, least=1, most=100_000)
"""Resources that one session, or one subscriptions/listen, may follow."""
MCPHUB_TASK_AFTER_SECONDS = limits.number("task_after_seconds", 0.5, least=0, most=60)
"""A call that may be a task, of a client of 2026-07-28, becomes one when it runs longer."""
MCPHUB_TASK_TTL_SECONDS = limits.number("task_ttl_seconds", 3600, least=1, most=30 * 86400)
"""How long a task's result can be fetched where the client asks for no lifetime, counted from the tool's timeout."""
MCPHUB_KEY_DAYS = limits.whole("key_days", 365, least=0, most=3650)
"""Default life of a new key; 0: without an end."""
MCPHUB_KEY_REMINDER_DAYS = limits.whole("key_reminder_days", 14, least=0, most=365)
"""So long before the end of a key the hub warns of it, in the history and in the log."""
MCPHUB_NOTICE_DAYS = limits.whole("notice_days", 90, least=1, most=3650)
"""So long after it was last seen a notice is removed, with its deliveries."""
MCPHUB_NOTICE_SETTLE_SECONDS = limits.number("notice_settle_seconds", 900, least=0, most=7 * 86400)
"""A state that recurs this soon after its end increments its notice without another delivery."""
MCPHUB_NOTICE_TRIES = limits.whole("notice_tries", 8, least=1, most=100)
"""After so many failed tries a delivery is given up; somebody may send it once more."""
MCPHUB_MAIL = env.mail("MCPHUB_MAIL_URL")
"""The server that e-mail goes out through, such as smtp+tls://user:password@mail.example:587; empty: none."""
MCPHUB_MAIL_FROM = env.text("MCPHUB_MAIL_FROM", "MCP Hub <mcphub@localhost>")
"""The sender of e-mail."""
EVENTSTREAM_CHANNELMANAGER_CLASS = "mcphub.features.notifications.live.Channels"
MCPHUB_OWN_KEYS = env.flag("MCPHUB_OWN_KEYS", default=True)
"""Whether people may make keys for themselves at /me/."""
MCPHUB_FIRST_KEY_DAYS = limits.whole("first_key_days", 90, least=0, most=3650)
"""For how long the key of the first start is valid; 0: without an end."""
MCPHUB_MAX_TASK_TTL_SECONDS = limits.number("max_task_ttl_seconds", 86400, least=1, most=30 * 86400)
MCPHUB_MAX_OPEN_TASKS_PER_CALLER = limits.whole("max_open_tasks_per_caller", 100, least=1, most=100_000)
MCPHUB_MAX_TASKS_PER_CALLER = limits.whole("max_tasks_per_caller", 1000, least=1, most=1_000_000)
"""Finished ones included, until their lifetime is over."""
MCPHUB_CHAT_BURST = limits.whole("chat_burst", 10, least=0, most=1_000_000)
"""Questions that one key, or one address without a key, may ask at once; 0: no limit."""
MCPHUB_CHAT_REFILL_SECONDS = limits.number("chat_refill_seconds", 6, least=0.001, most=86_400)
"""After so long it may ask one more, up to the burst."""
MCPHUB_CURRENCY = env.currency("MCPHUB_CURRENCY", "USD")
"""Of all prices of models and all quotas of money. Changed, it changes the word and converts nothing."""
MCPHUB_COMPLIANCE = env.names("MCPHUB_COMPLIANCE")
"""Frames by whose retention `mcphub doctor` judges the audit's."""
MCPHUB_CHAT_MAX_ROUNDS = limits.whole("chat_max_rounds", 8, least=1, most=100)
"""Requests to the model in one turn of a chat that may call tools; then one more, without them."""
MCPHUB_CHAT_MAX_CALLS_PER_ROUND = limits.whole("chat_max_calls_per_round", 16, least=1, most=128)
MCPHUB_CHAT_MAX_CALLS = limits.whole("chat_max_calls", 32, least=1, most=1000)
MCPHUB_CHAT_PARALLEL_CALLS = limits.whole("chat_parallel_calls", 4, least=1, most=64)
MCPHUB_CHAT_TURN_SECONDS = limits.number("chat_turn_seconds", 60, least=1, most=3600)
"""Of a turn as a whole. Tools have three quarters of it; the rest is kept for the model's last word."""
MCPHUB_CHAT_MAX_RESULT_BYTES = limits.whole("chat_max_result_bytes", 512 * 1024, least=1024, most=64 * 1024 * 1024)
MCPHUB_CHAT_MAX_ONE_RESULT_BYTES = limits.whole(
    "chat_max_one_result_bytes", 64 * 1024, least=256, most=16 * 1024 * 1024
)
MCPHUB_CHAT_MAX_CONTENT = limits.whole("chat_max_content", 4000, least=1, most=10_000_000)
"""Characters of the user's text in one query."""
MCPHUB_APPROVAL = env.choice("MCPHUB_APPROVAL", "never", ["never", "destructive", "always"])
"""Calls over MCP and REST that wait for approval, unless a row of the admin covers their tool."""
if MCPHUB_APPROVAL != "never" and "approvals" not in MCPHUB_FEATURES:
    raise ImproperlyConfigured(
        f"MCPHUB_APPROVAL is {MCPHUB_APPROVAL}, and MCPHUB_FEATURES leaves approvals out, so nobody could approve a "
        "call. Set MCPHUB_APPROVAL to never, or keep approvals."
    )
MCPHUB_APPROVAL_SECONDS = limits.whole("approval_seconds", 86_400, least=60, most=30 * 86_400)
"""How long such a call waits for a decision before it expires."""
MCPHUB_APPROVAL_HOLD_SECONDS = limits.number("approval_hold_seconds", 180, least=0, most=3600)
"""How long its request is held for the decision before it is answered as pending. Clients give up after about 240."""
MCPHUB_CHAT_APPROVAL = env.choice("MCPHUB_CHAT_APPROVAL", "destructive", ["never", "destructive", "always"])
"""Calls by models that wait for approval, unless a row of the admin covers their tool."""
MCPHUB_CHAT_RESPONSE_DAYS = limits.whole("chat_response_days", 30, least=1, most=3650)
"""How long a response can be gone on from by previous_response_id."""
MCPHUB_CHAT_IDLE_SECONDS = limits.number("chat_idle_seconds", 3600, least=1, most=30 * 86400)
"""A conversation that nobody goes on with expires."""
MCPHUB_CHAT_SESSION_SECONDS = limits.number("chat_session_seconds", 86400, least=1, most=366 * 86400)
"""The whole life of a conversation, however busy."""
MCPHUB_CHAT_MAX_SESSIONS_PER_CALLER = limits.whole("chat_max_sessions_per_caller", 1000, least=1, most=1_000_000)
MCPHUB_CHAT_KEEP_DAYS = limits.whole("chat_keep_days", 30, least=1, most=36_500)
"""Messages are deleted after this time; the tool calls stay in the audit."""
MCPHUB_EGRESS_ALLOW = env.hosts("MCPHUB_EGRESS_ALLOW")
"""Hosts, host:port or networks that tools may reach although they are private."""
MCPHUB_EGRESS_DENY = env.hosts("MCPHUB_EGRESS_DENY")
"""Hosts, host:port or networks that nothing is sent to, whatever other lists contain."""
MCPHUB_EGRESS_ONLY = env.hosts("MCPHUB_EGRESS_ONLY")
"""The public hosts and networks that may be reached; empty: all."""
MCPHUB_REGISTRY_URL = env.text("MCPHUB_REGISTRY_URL", "https://registry.modelcontextprotocol.io")
"""The registry of MCP servers that the console and `mcphub connection search` ask."""
MCPHUB_PUBLIC_REGISTRY = env.flag("MCPHUB_PUBLIC_REGISTRY")
"""Whether `/v0.1/servers` lists entries without groups for everybody, without a key."""
MCPHUB_EGRESS_PROXY = env.text("MCPHUB_EGRESS_PROXY")
"""The HTTP proxy that every request goes out through, such as http://user:password@proxy.example:3128."""
if MCPHUB_EGRESS_PROXY and not MCPHUB_EGRESS_PROXY.startswith(("http://", "https://")):
    raise ImproperlyConfigured("MCPHUB_EGRESS_PROXY is not the address of a proxy; write http://proxy.example:3128.")

# Traces and metrics ----------------------------------------------------------------------------------

MCPHUB_OTLP_ENDPOINT = env.address("MCPHUB_OTLP_ENDPOINT", ("http", "https"), "http://collector.example:4318")
"""Where traces and durations go by OTLP over HTTP, without `/v1/traces`; empty: nowhere. It needs `mcphub[otel]`."""
MCPHUB_TRACE_SHARE = env.number("MCPHUB_TRACE_SHARE", 1, least=0, most=1)
"""Of the traces that the hub begins, so many are recorded."""
MCPHUB_TRACE_FOLLOW_CLIENTS = env.flag("MCPHUB_TRACE_FOLLOW_CLIENTS", True)
"""Whether a client's sampling decision applies to its requests; off: the share does."""
MCPHUB_TRACE_BODIES = env.flag("MCPHUB_TRACE_BODIES")
"""Spans include arguments and results of calls too, as the audit records them."""
MCPHUB_TRACE_URL = env.template("MCPHUB_TRACE_URL", ("trace_id", "span_id"), "https://jaeger.example/trace/{trace_id}")
"""Where the console's pages of calls lead to for their traces."""
MCPHUB_METRICS_PORT = env.whole("MCPHUB_METRICS_PORT", 0, least=0, most=65535)
"""A port of its own for `/metrics`, without a key, and the probes; 0: `/metrics` is where clients come, with a key."""
MCPHUB_METRICS_HOST = env.text("MCPHUB_METRICS_HOST", "127.0.0.1")
"""Where that port is."""
MCPHUB_PEER_ADDRESS = env.host_and_port("MCPHUB_PEER_ADDRESS", "10.0.0.5:8100")
"""Where other machines of the hub reach the first worker of this one; the next workers take the next ports."""
MCPHUB_METRICS_TOOLS = limits.whole("metrics_tools", 500, least=1, most=10_000)
"""Tools with their own label in `/metrics`; the others are `other`."""
limits.refuse_unknown()

# Clients and REST ------------------------------------------------------------------------------------

HUB_REST: Any = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "sessions_app.rest.access.KeyAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["sessions_app.rest.access.Scoped"],
    "DEFAULT_FILTER_BACKENDS": ["sessions_app.kit.rest.filters.StrictFilterBackend"],
    "DEFAULT_PAGINATION_CLASS": "sessions_app.kit.rest.lists.KeysetPagination",
    "DEFAULT_RENDERER_CLASSES": ["sessions_app.kit.rest.wire.JSONRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "mcphub.rest.negotiation.PagesForPeople",
    "DEFAULT_PARSER_CLASSES": ["sessions_app.kit.rest.wire.JSONParser"],
    "DEFAULT_METADATA_CLASS": None,
    "DEFAULT_SCHEMA_CLASS": "sessions_app.kit.rest.schema.HubSchema",
    "EXCEPTION_HANDLER": "sessions_app.kit.rest.errors.render_exception",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}
REST_FRAMEWORK = HUB_REST
"""In a host project the hub's views read HUB_REST and HUB_OPENAPI: the settings of the frameworks are the host's."""
HUB_OPENAPI = {
    "TITLE": "MCP Hub",
    "VERSION": MCPHUB_VERSION,
    "OAS_VERSION": "3.1.0",
    "DESCRIPTION": (
        "The audit and the catalogue of an MCP hub.\n\n"
        "Within a major version addresses, members, filters, error codes and their meaning stay. Members, filters and "
        "codes may be added, so ignore those you do not know. What breaks a client comes with the next major version, "
        "announced one minor version before in the changelog and as `deprecated` in this document."
    ),
    "SCHEMA_PATH_PREFIX": "/api/",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SERVE_AUTHENTICATION": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    # Without it the page sends the address of the schema to a validator on the internet.
    "SWAGGER_UI_SETTINGS": {"deepLinking": True, "validatorUrl": None},
    "REDOC_DIST": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "ENUM_NAME_OVERRIDES": {
        "TransportEnum": "sessions_app.transports.choices",
        "SessionStateEnum": "sessions_app.models.McpSession.State",
        "TaskStateEnum": "invocations.tasks.models.McpTask.State",
        "TaskSupportEnum": "tools_catalog.models.definitions.TaskChoice",
        "OutcomeEnum": "invocations.models.McpToolInvocation.Status",
        "BackendEnum": "tools_catalog.kinds.registry.choices",
        "ConnectionTransportEnum": "tools_catalog.models.McpConnection.Transport",
        "ConnectionStatusEnum": "tools_catalog.models.McpConnection.Status",
        "ConnectionPolicyEnum": "tools_catalog.models.McpConnection.Policy",
        "ConnectionSessionsEnum": "tools_catalog.models.McpConnection.Sessions",
        "ResourceBackendEnum": "tools_catalog.models.content.ResourceBackend",
        "PromptBackendEnum": "tools_catalog.models.content.PromptBackend",
        "DirectionEnum": "invocations.redaction.models.McpRedactionRule.Part",
        **{part.name: part.choices for part in feature_list.declared(SchemaEnum)},
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "sessions_app.kit.rest.schema.close_requests",
        "sessions_app.kit.rest.schema.fill_parameters",
        "mcphub.rest.api.add_declared",
        "sessions_app.kit.rest.schema.bound_bodies",
        "mcphub.rest.examples.add_examples",
        "mcphub.rest.api.add_server",
    ],
}
SPECTACULAR_SETTINGS = HUB_OPENAPI
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}

# Words and files -------------------------------------------------------------------------------------

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("ru", "Русский")]
LOCALE_PATHS = [BASE_DIR / "mcphub" / "locale"]
USE_I18N = USE_TZ = True
FORMAT_MODULE_PATH = "mcphub.formats"
TIME_ZONE = "UTC"
STATIC_URL = "/static/"
STATIC_ROOT = MCPHUB_DATA_DIR / "static"
if not given.secret_key():
    STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # WhiteNoise wants it there; it stays empty unless collectstatic ran
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG
SVELTE_JSONEDITOR = {"modes": ["text", "tree"], "mode": "text"}

# Logs: one JSON object a line, never a payload or a secret -------------------------------------------

MCPHUB_LOG_LEVEL = env.text("MCPHUB_LOG_LEVEL", "INFO").upper()
if MCPHUB_LOG_LEVEL not in {"DEBUG", "INFO", "WARNING", "ERROR"}:
    raise ImproperlyConfigured(f"MCPHUB_LOG_LEVEL is {MCPHUB_LOG_LEVEL!r}; write DEBUG, INFO, WARNING or ERROR.")
MCPHUB_LOG_FORMAT = env.text("MCPHUB_LOG_FORMAT", "console")
if MCPHUB_LOG_FORMAT not in {"console", "json"}:
    raise ImproperlyConfigured(f"MCPHUB_LOG_FORMAT is {MCPHUB_LOG_FORMAT!r}; write console or json.")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"structured": {"()": "mcphub.process.logs.formatter", "style": MCPHUB_LOG_FORMAT}},
    "filters": {"few_of_a_kind": {"()": "mcphub.process.logs.FewOfAKind"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structured", "filters": ["few_of_a_kind"]}},
    "root": {"handlers": ["stderr"], "level": MCPHUB_LOG_LEVEL},
    "loggers": {
        "django.server": {"handlers": ["stderr"], "propagate": False},
        "httpx2": {"level": "WARNING"},
        "httpcore2": {"level": "WARNING"},
        "botocore": {"level": "WARNING"},
        # It logs what an upstream answered, in which a secret may stand; the hub tells itself what failed.
        "mcp": {"level": "CRITICAL"},
        # Of a collector that is away it tells at each batch; the hub tells once.
        "opentelemetry": {"handlers": [], "level": "WARNING", "propagate": False},
    },
}

UNFOLD = {
    "SITE_TITLE": "MCP Hub",
    "SITE_HEADER": "MCP Hub",
    "SITE_SUBHEADER": _("Tools and their calls"),
    "SITE_SYMBOL": "hub",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("mcphub/icon.svg")}],
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "DASHBOARD_CALLBACK": "mcphub.console.dashboard.show",
    "SIDEBAR": {"show_search": False, "navigation": "mcphub.console.navigation.show"},
    # The theme would write its colours into the page; the content security policy admits them as a file only.
    "COLORS": lambda request: {},
    "STYLES": [lambda request: static("mcphub/colours.css"), lambda request: static("mcphub/admin.css")],
    "SCRIPTS": [
        lambda request: static("mcphub/policy.js"),
        lambda request: static("mcphub/copy.js"),
        lambda request: static("mcphub/accessible.js"),
        lambda request: static("mcphub/keys.js"),
        lambda request: static("mcphub/palette.js"),
        lambda request: static("mcphub/times.js"),
        lambda request: static("mcphub/charts.js"),
        lambda request: static("mcphub/notices.js"),
    ],
}
