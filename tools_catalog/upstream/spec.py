"""A process's connection settings of an upstream: plain data, compared to detect changes. Pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

from tools_catalog.backends.http.template import Secrets, Template, Values, header_text
from tools_catalog.bindings import CONNECTION, PROFILE, SERVICE, Destination, origin_of
from tools_catalog.upstream.account import ACCOUNTS as ACCOUNTS
from tools_catalog.upstream.account import CLIENT_ACCOUNT as CLIENT_ACCOUNT
from tools_catalog.upstream.account import NO_ACCOUNT as NO_ACCOUNT
from tools_catalog.upstream.account import OF_PERSONS
from tools_catalog.upstream.account import PERSONAL_ACCOUNT as PERSONAL_ACCOUNT
from tools_catalog.upstream.account import SHARED_ACCOUNT as SHARED_ACCOUNT
from tools_catalog.upstream.asking import Asking
from tools_catalog.upstream.vendors import VendorExtension

STDIO, SSE, STREAMABLE_HTTP = "stdio", "sse", "streamable-http"
TRANSPORTS: Final = (STDIO, SSE, STREAMABLE_HTTP)
AUTO, HANDSHAKE, STATELESS = "auto", "handshake", "stateless"
ERAS: Final = (AUTO, HANDSHAKE, STATELESS)
"""A connection's setting of its upstream's era: detected, with sessions, or without."""

FIRST_START: Final = 4
"""Times the connect timeout for programs that never listed their tools, and for tests: `npx` and the like fetch
packages at a first start, which takes 34 s on a busy machine."""

OWN_HEADERS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "mcp-session-id",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that the transport writes; a connection cannot."""

_SECRET_NAME: Final = re.compile(r"(?i)token|secret|password|passwd|api[-_]?key|authorization|cookie|credential")
"""Names with values that do not belong into a table for people: they are written as {secret:NAME}."""

FORBIDDEN_VARIABLES: Final = ("LD_", "DYLD_", "MCPHUB_", "PYTHONSTARTUP", "BASH_ENV")
"""Beginnings of variables that make a program run other code, or that are the hub's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """How a child process is started: a program and its words, never a line for a shell."""

    name: str
    command: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, Template], ...] = ()
    directory: str = ""
    memory_mb: int = 0
    cpu_seconds: int = 0
    open_files: int = 1024
    file_mb: int = 0
    max_processes: int = 0
    folder: str = ""
    """Where its home and its temporary folder are made; needed unless it is unconfined."""
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    """Paths of the hub that no child may reach, whatever else is allowed."""
    roots: tuple[str, ...] = ()
    """Folders beneath which the deployment lets children write."""
    network: str = "none"
    user: str = ""
    """The user it runs as, by name or number, if the hub is root; empty: the hub's user."""
    is_unconfined: bool = False
    is_single: bool = False
    """At most one process of the hub runs it at a time."""

    NO_NETWORK: ClassVar[str] = "none"
    OPEN: ClassVar[str] = "open"

    def rendered_environment(self, secret: Secrets) -> dict[str, str]:
        values = Values({}, secret, Destination(f"{self.name}{PROFILE}"))
        return {name: template.fill(values, _no_arguments) or "" for name, template in self.environment}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The service whose accounts identify people."""

    id: int
    slug: str
    url: str

    of: ClassVar[str] = SERVICE
    account: ClassVar[str] = PERSONAL_ACCOUNT
    is_personal: ClassVar[bool] = True
    identity: ClassVar[None] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSpec:
    """One upstream. A change of any member means a new connection."""

    id: int
    slug: str
    transport: str
    url: str = ""
    headers: tuple[tuple[str, Template], ...] = ()
    account: str = NO_ACCOUNT
    identity: Identity | None = None
    lists_per_person: bool = False
    """Its lists depend on the user, so each account reads lists of its own."""
    launch: LaunchSpec | None = None
    starts_eagerly: bool = False
    separates_callers: bool = True
    """A session of its own for each caller, where the upstream has sessions; one process never has two."""
    era: str = AUTO
    unprobed: str = field(default="", compare=False)
    """The server, as it named itself, that did not answer a probe when it was last reached so: it gets none."""
    declares: frozenset[VendorExtension] = field(default=frozenset(), compare=False)
    """The extensions that it passes and that its upstream declared last."""
    asking: Asking = field(default_factory=Asking)
    connect_seconds: float = 15.0
    first_seconds: float = field(default=0.0, compare=False)
    """For a first start, if it may take longer: its program may have to download packages."""
    idle_seconds: float = 300.0
    refresh_seconds: float = 300.0
    generated_skills: bool = False
    """Skills whose files the upstream makes at each read may be approved."""
    """A call is never made on a listing that is older; 0: the tools are listed before each call."""
    max_concurrent: int = 32
    max_waiting: int = 128
    max_sessions: int = 64
    max_response_bytes: int = 8 * 1024 * 1024
    max_notifications: int = 1000
    """Notifications that one call may send."""

    of: ClassVar[str] = CONNECTION

    @property
    def reach(self) -> str:
        """A digest of the address or command: facts about another do not apply."""
        launch = self.launch
        words = [] if launch is None else [launch.command, *launch.arguments, "", launch.directory]
        return hashlib.sha256("\0".join([self.transport, self.url, *words]).encode()).hexdigest()[:16]

    @property
    def secrets(self) -> frozenset[str]:
        """Names of the secrets that it sends, or gives to its process."""
        texts = (*self.headers, *(() if self.launch is None else self.launch.environment))
        return frozenset(name for _name, template in texts for name in template.secrets)

    @property
    def begins_within(self) -> float:
        """Seconds from the start of a session to its first answers."""
        return max(self.connect_seconds, self.first_seconds)

    def as_first(self) -> ConnectionSpec:
        """Return it with the time of a first start, which a program may need for its packages."""
        return self if self.launch is None else replace(self, first_seconds=FIRST_START * self.connect_seconds)

    @property
    def is_personal(self) -> bool:
        """Each caller is there with an account of his own, so no session of one serves another."""
        return self.account in OF_PERSONS

    @property
    def is_single(self) -> bool:
        """At most one process of the hub holds it at a time."""
        return self.launch is not None and self.launch.is_single

    def rendered_headers(self, secret: Secrets) -> dict[str, str]:
        """Return the headers of requests to the origin of `url`, which redirects may only leave for its TLS."""
        values = Values({}, secret, Destination(origin_of(self.url), (f"{CONNECTION}:{self.slug}",)))
        return {name: header_text(name, template, values) or "" for name, template in self.headers}


def names_credential(name: str) -> bool:
    """Return whether the value of a header or variable of this name is a secret."""
    return _SECRET_NAME.search(name) is not None


def parse_headers(raw: object, *, has_literals: bool = False) -> tuple[tuple[str, Template], ...]:
    """Read `{name: text with {secret:NAME}}`; raise ValueError for headers that cannot be sent.

    `has_literals`: credentials may stand there as they are, since they are taken out next.
    """
    parsed = _templates(raw, "headers", has_literals)
    for name, _template in parsed:
        if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
            raise ValueError(f"{name!r} is no name of a header.")
        if name.lower() in OWN_HEADERS:
            raise ValueError(f"{name}: the hub writes this header itself.")
    if len({name.lower() for name, _template in parsed}) != len(parsed):
        raise ValueError("A header stands there twice.")
    return parsed


def parse_environment(raw: object, *, has_literals: bool = False) -> tuple[tuple[str, Template], ...]:
    """Read `{name: text with {secret:NAME}}`; raise ValueError for variables that must not be set."""
    parsed = _templates(raw, "environment", has_literals)
    for name, _template in parsed:
        if not name.isascii() or not name.replace("_", "a").isalnum() or name[:1].isdigit():
            raise ValueError(f"{name!r} is no name of a variable.")
        if name.upper().startswith(FORBIDDEN_VARIABLES):
            raise ValueError(f"{name}: this variable cannot be set for a child process.")
    return parsed


def parse_arguments(raw: object) -> tuple[str, ...]:
    """Read the words of a command; raise ValueError for anything but plain texts."""
    if not isinstance(raw, list) or not all(isinstance(word, str) for word in raw):
        raise ValueError("This must be a list of texts, one for each word.")
    if any("\x00" in word for word in raw):
        raise ValueError("A word contains a NUL character.")
    return tuple(raw)


def parse_paths(raw: object) -> tuple[str, ...]:
    """Read a list of absolute paths; raise ValueError for anything else."""
    if not isinstance(raw, list) or not all(isinstance(path, str) for path in raw):
        raise ValueError("This must be a list of paths.")
    for path in raw:
        if not path.startswith("/") or "\x00" in path:
            raise ValueError(f"{path!r} is no absolute path.")
    return tuple(raw)


def _templates(raw: object, where: str, has_literals: bool) -> tuple[tuple[str, Template], ...]:
    if not isinstance(raw, dict) or not all(isinstance(text, str) for text in raw.values()):
        raise ValueError("This must be an object of names and texts.")
    parsed = tuple((name, Template.parse(text, f"{where}.{name}")) for name, text in raw.items())
    for name, template in parsed:
        if not has_literals and names_credential(name) and not any(template.secrets) and template.parts:
            raise ValueError(f"{name}: put the value into a secret, and write {{secret:NAME}} here.")
        for argument in template.arguments:
            raise ValueError(
                f"{name}: {{{argument}}} is no secret. What a call says is never put here; write {{secret:NAME}}."
            )
        if any(isinstance(part, str) and ("\n" in part or "\r" in part or "\x00" in part) for part in template.parts):
            raise ValueError(f"{name}: line breaks and NUL are not allowed.")
    return parsed


def _no_arguments(name: str, value: object) -> str:
    raise AssertionError(name)  # `_templates` lets none in
