"""The table of settings: each `MCPHUB_*` variable with its section of the page, what it does, and an example."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.utils.translation import gettext_lazy as _

from mcphub import environment as env
from mcphub.console.configuration import masking

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

SECTIONS: Final[dict[str, _StrOrPromise]] = {
    "address": _("Address and workers"),
    "database": _("Database"),
    "egress": _("Outgoing requests"),
    "mail": _("Mail and notifications"),
    "chat": _("Models and chat"),
    "retention": _("Retention and disk"),
    "signin": _("Sign-in and keys"),
    "audit": _("Audit log"),
    "tools": _("Tools and upstreams"),
    "limits": _("Limits on clients and calls"),
    "telemetry": _("Logs and telemetry"),
}


@dataclass(frozen=True, slots=True)
class Variable:
    """A setting of the deployment. `example` is a value for the line to write; empty: on and off."""

    name: str
    section: str
    about: _StrOrPromise
    example: str = ""
    value: Callable[[], object] | None = None
    """Returns the value in force in this process, without secrets; None: the setting of the variable's name."""

    @property
    def in_force(self) -> object:
        return getattr(settings, self.name) if self.value is None else self.value()


def _is_behind_proxy() -> bool:
    return settings.SECURE_PROXY_SSL_HEADER is not None


def _packs() -> tuple[str, ...]:
    return env.names("MCPHUB_PACKS")


VARIABLES: Final = (
    Variable(
        "MCPHUB_PUBLIC_URL",
        "address",
        _("The address that clients are given, and the name that tokens are issued for."),
        "https://hub.example",
        lambda: masking.address(settings.MCPHUB_PUBLIC_URL),
    ),
    Variable(
        "MCPHUB_HOST",
        "address",
        _("The network address to listen on."),
        "0.0.0.0",  # noqa: S104 - a text
        lambda: env.text("MCPHUB_HOST", "127.0.0.1"),
    ),
    Variable(
        "MCPHUB_PORT",
        "address",
        _("The port to listen on; 0 takes a free one."),
        "8000",
        lambda: env.whole("MCPHUB_PORT", 8000, least=0, most=65535),
    ),
    Variable(
        "MCPHUB_WORKERS",
        "address",
        _("Server processes. On SQLite one is best."),
        "4",
        lambda: env.whole("MCPHUB_WORKERS", 1, least=1, most=256),
    ),
    Variable(
        "MCPHUB_MODE",
        "address",
        _("Whether clients come over HTTP (remote), or one over standard input and output (stdio)."),
        "remote",
        lambda: env.text("MCPHUB_MODE", "remote"),
    ),
    Variable(
        "MCPHUB_ALLOWED_HOSTS",
        "address",
        _("Host names that the hub answers to."),
        "hub.example",
        lambda: settings.ALLOWED_HOSTS,
    ),
    Variable(
        "MCPHUB_ALLOWED_ORIGINS", "address", _("Origins of web pages that may call the hub."), "https://app.example"
    ),
    Variable("MCPHUB_ALLOW_ANONYMOUS", "address", _("Callers without a key, from this machine only.")),
    Variable(
        "MCPHUB_BEHIND_PROXY",
        "address",
        _("Trust the X-Forwarded headers of the proxies below."),
        value=_is_behind_proxy,
    ),
    Variable("MCPHUB_PROXIES", "address", _("Proxies whose X-Forwarded headers are trusted."), "10.0.0.7"),
    Variable(
        "MCPHUB_PEER_ADDRESS",
        "address",
        _("Where other machines of this hub reach the workers of this one."),
        "10.0.0.5:8100",
        lambda: ":".join(map(str, settings.MCPHUB_PEER_ADDRESS or ())),
    ),
    Variable(
        "MCPHUB_DATABASE_URL",
        "database",
        _("The database. SQLite suits one machine, PostgreSQL several workers."),
        "postgres://hub:PASSWORD@db.example/hub",
        lambda: masking.database(settings.DATABASES["default"]),
    ),
    Variable(
        "MCPHUB_DATABASE_DIRECT_URL",
        "database",
        _("The same database past a connection pooler."),
        "postgres://hub:PASSWORD@db.example:5432/hub",
        lambda: masking.database(settings.MCPHUB_DIRECT_DATABASE),
    ),
    Variable(
        "MCPHUB_AUDIT_DATABASE_URL",
        "database",
        _("A standby of PostgreSQL that auditors read."),
        "postgres://hub:PASSWORD@standby.example/hub",
        lambda: masking.database(settings.DATABASES.get("audit", {})),
    ),
    Variable("MCPHUB_MIGRATE", "database", _("Whether a start brings the tables up to date.")),
    Variable("MCPHUB_ALLOW_NOT_DURABLE", "database", _("Serve even if a crash may lose recorded calls.")),
    Variable(
        "MCPHUB_EGRESS_ALLOW",
        "egress",
        _("Private hosts and networks that the hub may reach, besides the allowed hosts in the console."),
        "10.0.0.0/24, api.internal",
    ),
    Variable("MCPHUB_EGRESS_DENY", "egress", _("Hosts and networks that the hub never connects to."), "*.example"),
    Variable("MCPHUB_EGRESS_ONLY", "egress", _("The only public hosts that may be reached."), "api.github.com"),
    Variable(
        "MCPHUB_EGRESS_PROXY",
        "egress",
        _("The HTTP proxy for all outgoing requests."),
        "http://proxy.example:3128",
        lambda: masking.address(settings.MCPHUB_EGRESS_PROXY),
    ),
    Variable(
        "MCPHUB_REGISTRY_URL",
        "egress",
        _("The registry of MCP servers that the console searches."),
        "https://registry.example",
        lambda: masking.address(settings.MCPHUB_REGISTRY_URL),
    ),
    Variable(
        "MCPHUB_PUBLIC_REGISTRY", "tools", _("Whether everybody may list this hub's own registry, without a key.")
    ),
    Variable(
        "MCPHUB_MAIL_URL",
        "mail",
        _("The mail server. Without one the hub sends no e-mail."),
        "smtp+tls://user:PASSWORD@mail.example:587",
        lambda: masking.mail(settings.MCPHUB_MAIL),
    ),
    Variable("MCPHUB_MAIL_FROM", "mail", _("The sender of e-mail."), "MCP Hub <hub@example.com>"),
    Variable(
        "MCPHUB_CURRENCY", "chat", _("The currency of prices and money quotas. Changing it converts nothing."), "EUR"
    ),
    Variable(
        "MCPHUB_CHAT_APPROVAL",
        "chat",
        _("Which calls by models wait for approval if no policy covers the tool: never, destructive or always."),
        "always",
    ),
    Variable("MCPHUB_DATA_DIR", "retention", _("The folder of the database and secrets. Back it up."), "/srv/mcphub"),
    Variable(
        "MCPHUB_SECRET_KEY_FILE",
        "signin",
        _("The key that signs logins. It is created once."),
        "/srv/mcphub/secret_key",
    ),
    Variable(
        "MCPHUB_ENCRYPTION_KEY_FILE",
        "signin",
        _("The keys that encrypt stored secrets. Keep a copy."),
        "/srv/mcphub/encryption_keys",
    ),
    Variable(
        "MCPHUB_API_KEY",
        "signin",
        _("The caller's key over stdio."),
        "KEY",
        lambda: masking.secret(settings.MCPHUB_API_KEY),
    ),
    Variable("MCPHUB_OWN_KEYS", "signin", _("Whether people may create API keys for themselves.")),
    Variable(
        "MCPHUB_SECOND_FACTOR",
        "signin",
        _("Who needs a second factor (MFA) besides a password: optional, console or everybody."),
        "console",
    ),
    Variable("MCPHUB_SIGN_IN", "signin", _("Whether people authorize clients by signing in. Off: clients need keys.")),
    Variable("MCPHUB_CLIENT_REGISTRATION", "signin", _("Whether clients may register themselves (RFC 7591).")),
    Variable(
        "MCPHUB_REDIRECT_SCHEMES",
        "signin",
        _("URL schemes of further desktop apps that a sign-in may return to."),
        "zed",
    ),
    Variable(
        "MCPHUB_AUDIT_DIR", "audit", _("Signing key, public keys and checkpoints. Keep a copy."), "/srv/mcphub/audit"
    ),
    Variable(
        "MCPHUB_ARCHIVE_DIR",
        "audit",
        _("Where closed months are archived as Parquet, and searched: a folder, or s3://bucket/prefix."),
        "/mnt/archive",
    ),
    Variable(
        "MCPHUB_SIGNING_KEY",
        "audit",
        _("The text of the key that signs the audit log."),
        "KEY",
        lambda: masking.secret(settings.MCPHUB_SIGNING.source == "MCPHUB_SIGNING_KEY"),
    ),
    Variable(
        "MCPHUB_SIGNING_KEY_FILE",
        "audit",
        _("The file of that key, outside the audit folder."),
        "/run/secrets/signing.key",
        lambda: env.text("MCPHUB_SIGNING_KEY_FILE"),
    ),
    Variable(
        "MCPHUB_SIGNING_COMMAND",
        "audit",
        _("A command that signs instead (KMS, HSM)."),
        "/usr/local/bin/sign",
        lambda: masking.command(settings.MCPHUB_SIGNING.command),
    ),
    Variable(
        "MCPHUB_SIGNING_PUBLIC_KEY",
        "audit",
        _("The public key of that command."),
        "KEY",
        lambda: settings.MCPHUB_SIGNING.public_key,
    ),
    Variable(
        "MCPHUB_CHECKPOINT_FILE",
        "audit",
        _("Where checkpoints are appended. Best on another disk. If empty, in the audit folder."),
        "/mnt/witness/checkpoints",
    ),
    Variable(
        "MCPHUB_CHECKPOINT_SYSLOG", "audit", _("A syslog server that gets checkpoints too."), "udp://log.example:514"
    ),
    Variable(
        "MCPHUB_CHECKPOINT_WEBHOOK",
        "audit",
        _("A webhook that gets checkpoints too."),
        "https://witness.example/checkpoints",
        lambda: masking.origin(settings.MCPHUB_CHECKPOINT_WEBHOOK),
    ),
    Variable("MCPHUB_AUDIT_EVERY_INTENT", "audit", _("Record calls of read-only tools before they run, too.")),
    Variable("MCPHUB_AUDIT_REFUSED_TEXT", "audit", _("Store the arguments of refused calls as text.")),
    Variable("MCPHUB_SHIPPING", "audit", _("Whether this hub streams the audit log to export destinations.")),
    Variable(
        "MCPHUB_SHIPPING_DIR", "audit", _("The folder for export destinations that write files."), "/srv/mcphub/shipped"
    ),
    Variable(
        "MCPHUB_COMPLIANCE",
        "retention",
        _("Compliance frames whose retention diagnostics check: ai-act, soc2."),
        "soc2",
    ),
    Variable(
        "MCPHUB_APPROVAL",
        "tools",
        _("Which calls wait for approval, unless a policy covers the tool: never, destructive or always."),
        "destructive",
    ),
    Variable("MCPHUB_PACKS", "tools", _("Tool packs to load at each start."), "starter", _packs),
    Variable("MCPHUB_APPS", "tools", _("Python packages with tools of your own."), "house_tools"),
    Variable("MCPHUB_RELOAD", "tools", _("For development: restart when these packages change.")),
    Variable("MCPHUB_CHILDREN_DIR", "tools", _("Home folders of local (stdio) servers."), "/srv/mcphub/children"),
    Variable("MCPHUB_CHILDREN_WRITABLE", "tools", _("Folders that local servers may write to."), "/srv/shared"),
    Variable(
        "MCPHUB_WORKLOAD_TOKENS", "tools", _("The folder of workload tokens for upstream accounts."), "/var/run/tokens"
    ),
    Variable(
        "MCPHUB_CALL_TIMEOUT_SECONDS",
        "limits",
        _("The longest time a call may take, whatever the tool's own timeout is."),
        "120",
    ),
    Variable(
        "MCPHUB_LEDGER_TIMEOUT_SECONDS", "limits", _("How long a call waits for its audit record to be committed."), "5"
    ),
    Variable("MCPHUB_LOG_LEVEL", "telemetry", _("What is logged: DEBUG, INFO, WARNING or ERROR."), "WARNING"),
    Variable("MCPHUB_LOG_FORMAT", "telemetry", _("The form of log lines: console or json."), "json"),
    Variable(
        "MCPHUB_DEBUG",
        "telemetry",
        _("Django's debug mode. It shows internals to visitors."),
        value=lambda: settings.DEBUG,
    ),
    Variable(
        "MCPHUB_OTLP_ENDPOINT",
        "telemetry",
        _("The OpenTelemetry collector for traces and durations."),
        "http://collector.example:4318",
        lambda: masking.address(settings.MCPHUB_OTLP_ENDPOINT),
    ),
    Variable("MCPHUB_TRACE_SHARE", "telemetry", _("The share of traces that are recorded, from 0 to 1."), "0.1"),
    Variable("MCPHUB_TRACE_FOLLOW_CLIENTS", "telemetry", _("Whether clients decide if their requests are traced.")),
    Variable("MCPHUB_TRACE_BODIES", "telemetry", _("Whether traces include arguments and results.")),
    Variable(
        "MCPHUB_TRACE_URL",
        "telemetry",
        _("Where a call's page links to its trace."),
        "https://jaeger.example/trace/{trace_id}",
        lambda: masking.userinfo(settings.MCPHUB_TRACE_URL),
    ),
    Variable("MCPHUB_METRICS_PORT", "telemetry", _("A separate port for metrics and probes, without a key."), "9100"),
    Variable("MCPHUB_METRICS_HOST", "telemetry", _("The network address of that port."), "10.0.0.5"),
)
"""MCPHUB_FEATURES and MCPHUB_LIMITS have tables of their own on the page."""
