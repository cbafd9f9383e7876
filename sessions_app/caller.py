"""The caller of a request, made from its credential, and the snapshot of keys."""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import pwd
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sessions_app.protocol.errors import Forbidden, Unauthenticated
from sessions_app.workspaces.belonging import Workspace

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

    from sessions_app.models import ApiKey

logger = logging.getLogger(__name__)

_KEPT_SOURCES = 1000
_UNKNOWN = "The key is unknown or was revoked. Ask the operator for a new one."


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The identity of a caller. The credential alone decides it; no header, path or parameter adds to it."""

    principal: str
    """`key:<id>`, `user:<id>`, `local:<user number>` or `anonymous`."""
    label: str
    scopes: frozenset[str]
    groups: frozenset[int] = frozenset()
    calls_per_minute: int | None = None
    recorded_mib_per_day: int | None = None
    """MiB of the audit that its calls may fill; 0: no limit, None: the hub's default."""
    workspace: int | None = None
    """The workspace of its key or address: it sees rows of that one and unassigned ones."""
    workspace_slug: str | None = None
    sees_everything: bool = False
    """A superuser trying tools in the admin."""
    key_id: int | None = None
    """Of the key with which it calls; of a person's key the principal names the person."""
    allowed_client: str | None = None
    """The client whose access token this is; its number or its issuer identifies it."""
    claims: str = ""
    """Of its access token, as JSON, for rules about calls; empty where it has none or they are too long."""
    sources: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    """Call sources built for this caller, a cache of this process. The next snapshot of keys starts with none."""

    @property
    def is_signed_in(self) -> bool:
        """Whether it came with an access token."""
        return self.allowed_client is not None

    @property
    def credential(self) -> str:
        """The credential whose end ends this access: `key:<id>`, or else the principal."""
        return f"key:{self.key_id}" if self.key_id is not None else self.principal

    def remember(self, key: object, source: object) -> None:
        if len(self.sources) >= _KEPT_SOURCES:
            self.sources.clear()
        self.sources[key] = source

    def within(self, workspace: Workspace) -> Caller:
        """Return the same caller at the address of a workspace that it belongs to."""
        if self.workspace == workspace.key:
            return self
        found = self.sources.get(workspace)
        if found is None:
            found = replace(self, workspace=workspace.key, workspace_slug=workspace.slug, sources={})
            self.remember(workspace, found)
        return found

    def need(self, scope: str) -> None:
        """Raise Forbidden where the credential does not carry `scope`."""
        if scope not in self.scopes:
            advice = "Sign in again and allow it." if self.is_signed_in else "Ask the operator for a key that has it."
            what = "access token" if self.is_signed_in else "key"
            raise Forbidden(f"The {what} lacks the scope {scope}. {advice}", scope=scope)


ANONYMOUS = Caller(principal="anonymous", label="anonymous", scopes=frozenset({"tools:list", "tools:call", "chat"}))


@functools.cache
def local_caller() -> Caller:
    """Return the system user of this process, who can read the hub's data anyway."""
    number = os.getuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:  # a container's user without an entry
        name = str(number)
    return Caller(principal=f"local:{number}", label=f"{name} on this machine", scopes=ANONYMOUS.scopes)


def caller_of(user: User | AnonymousUser) -> Caller:
    """Return the caller of a logged-in person."""
    scopes = {"tools:list", "tools:call", *(["audit:read"] if user.has_perm("invocations.read_bodies") else [])}
    return Caller(
        principal=f"user:{user.pk}",
        label=user.get_username(),
        scopes=frozenset(scopes),
        groups=frozenset(user.groups.values_list("pk", flat=True)),
        sees_everything=user.is_superuser,
    )


def person_of(user: User | AnonymousUser) -> Caller:
    """Return the caller that a client of the person makes: a superuser's client sees no more than their groups do."""
    return replace(caller_of(user), sees_everything=False)


@dataclass(frozen=True, slots=True)
class _Person:
    """The rights of a person for their keys at one moment."""

    account: User
    groups: frozenset[int]


def caller_of_key(
    key: ApiKey, people: dict[int, _Person] | None = None, workspaces: Mapping[int, Workspace] | None = None
) -> Caller:
    """Return the caller that a key makes. A person's key does no more than its person may at this moment.

    `people` remembers owners over many keys, `workspaces` are those of the hub. Asks the database.
    """
    from sessions_app.models.keys import may_hold

    scopes, groups = frozenset(key.scopes), frozenset(group.pk for group in key.groups.all())
    workspace = _workspace_of(key, workspaces)
    if key.owner is not None:
        known = {} if people is None else people
        person = known.get(key.owner.pk)
        if person is None:
            person = known[key.owner.pk] = _Person(key.owner, frozenset(key.owner.groups.values_list("pk", flat=True)))
        scopes = frozenset(scope for scope in scopes if may_hold(person.account, scope, key.workspace_id))
        groups &= person.groups
    return Caller(
        principal=key.principal,
        label=key.caller_label,
        scopes=scopes,
        groups=groups,
        calls_per_minute=key.calls_per_minute,
        recorded_mib_per_day=key.recorded_mib_per_day,
        key_id=key.pk,
        workspace=None if workspace is None else workspace.key,
        workspace_slug=None if workspace is None else workspace.slug,
    )


_NOWHERE = Workspace(0, "", frozenset())
"""For a person's key in a workspace that the person has left: it sees only unassigned rows."""


def _workspace_of(key: ApiKey, workspaces: Mapping[int, Workspace] | None) -> Workspace | None:
    """Return the workspace that a key opens; None for a key of the whole hub."""
    from sessions_app.workspaces.models import read_workspaces

    if key.workspace_id is None:
        return None
    found = (read_workspaces() if workspaces is None else workspaces).get(key.workspace_id, _NOWHERE)
    if key.owner is None or found.groups.intersection(key.owner.groups.values_list("pk", flat=True)):
        return found
    return _NOWHERE


KEYS_OF_GROUP, KEYS_OF_WORKSPACE = "group:", "workspace:"
"""Begin the name of many keys on the bus, before the number of the group of their owners, or of their workspace."""

KeyTexts = dict[bytes, tuple[Caller, float]]
"""By the digest of a key's text: the caller that it makes, and when the text ends (seconds since the epoch)."""


class Keys:
    """All usable keys, by the digest of their text. Changed on the event loop alone, by `put`, `drop` and `used`."""

    def __init__(self, callers: KeyTexts) -> None:
        self._callers = callers
        self.until: dict[str, float] = {}
        """`key:<id>` -> when the last of its texts ends (seconds since the epoch)."""
        self._ending: set[str] = set()
        """Those of them that end some time."""
        self.recorded_mib_per_day: dict[str, int] = {}
        """Principal -> its own limit, where it has one. Keys of people have none: a person has one share."""
        self._texts: dict[str, list[bytes]] = {}
        """Caller or key -> digests."""
        for digest, (caller, ends) in callers.items():
            self._index(digest, caller, ends)
        self._revoked: set[bytes] = set()
        """Digests of keys that ended since, and need no look at the database."""
        self.used: dict[int, float] = {}
        """Key id -> when last seen (seconds since the epoch); flushed to the database now and then."""

    def _index(self, digest: bytes, caller: Caller, ends: float) -> None:
        credential = caller.credential
        self.until[credential] = max(self.until.get(credential, 0.0), ends)
        if self.until[credential] != float("inf"):
            self._ending.add(credential)
        if caller.recorded_mib_per_day is not None:
            self.recorded_mib_per_day[caller.principal] = caller.recorded_mib_per_day
        for name in {credential, caller.principal}:
            self._texts.setdefault(name, []).append(digest)

    @classmethod
    def load(cls) -> Keys:
        return cls(cls.read())

    @staticmethod
    def read(ids: Collection[int] | None = None) -> KeyTexts:
        """Read the texts of the usable keys among `ids`; None: of all."""
        from sessions_app.models import ApiKey
        from sessions_app.workspaces.models import read_workspaces

        callers = {}
        people: dict[int, _Person] = {}
        workspaces = read_workspaces()
        usable = ApiKey.objects.filter(revoked_at__isnull=True).exclude(owner__is_active=False)
        if ids is not None:
            usable = usable.filter(pk__in=ids)
        for key in usable.select_related("owner").prefetch_related("groups"):
            caller = caller_of_key(key, people, workspaces)
            until = key.expires_at.timestamp() if key.expires_at else float("inf")
            texts = [(key.secret_hash, until)]
            if key.previous_until is not None:
                texts.append((key.previous_hash, min(until, key.previous_until.timestamp())))
            for text_hash, ends in texts:
                try:
                    callers[bytes.fromhex(text_hash)] = (caller, ends)
                except ValueError:
                    logger.error("The key %s has a malformed hash and is left out", key.pk)
        return callers

    @staticmethod
    def named(names: Collection[str], most: int) -> set[int] | None:
        """Return the numbers of the keys that the bus names, by number, group or workspace; None for more than `most`.

        Asks the database.
        """
        from django.db.models import Q

        from sessions_app.models import ApiKey

        found = {int(name) for name in names if name.isdecimal()}
        parts = {name.partition(":")[::2] for name in names if not name.isdecimal()}
        groups = [int(number) for kind, number in parts if f"{kind}:" == KEYS_OF_GROUP]
        workspaces = [int(number) for kind, number in parts if f"{kind}:" == KEYS_OF_WORKSPACE]
        if parts:
            theirs = Q(owner__groups__in=groups) | Q(owner__isnull=False, workspace__in=workspaces)
            found |= set(ApiKey.objects.filter(theirs).distinct().values_list("pk", flat=True)[: most + 1])
        return None if len(found) > most else found

    def put(self, ids: Collection[int], read: KeyTexts) -> None:
        """Replace the texts of the keys `ids` by those that were read: what others have stays as it is."""
        for credential in (f"key:{id}" for id in ids):
            for digest in self._texts.pop(credential, ()):
                found = self._callers.pop(digest, None)
                if found is not None and found[0].principal != credential:
                    self._texts[found[0].principal].remove(digest)
                if found is not None:
                    self.recorded_mib_per_day.pop(found[0].principal, None)
            if credential in self.until:
                self.until[credential] = 0.0
            self._ending.discard(credential)
        for digest, (caller, ends) in read.items():
            self._callers[digest] = (caller, ends)
            self._revoked.discard(digest)
            self._index(digest, caller, ends)
        for credential in (f"key:{id}" for id in ids):
            if self.until.get(credential) == 0.0:
                self._ending.add(credential)

    def drop(self, ended: Collection[str]) -> None:
        """Take out the texts of callers or keys (`key:<id>`) that have ended, before the keys are read again.

        A key stays refused; a person's other keys that are still good are found again, because unknown keys are looked
        up. `until` keeps them all for `ended`.
        """
        for name in ended:
            for digest in self._texts.get(name, ()):
                self._callers.pop(digest, None)
                if name.startswith("key:"):
                    self._revoked.add(digest)

    def ended(self, before: Keys, now: float) -> set[str]:
        """Return those keys of `before`, as `key:<id>`, that open nothing any more: revoked, removed or expired."""
        known = self._ending if before is self else before.until
        return {credential for credential in known if self.until.get(credential, 0.0) <= now}

    def caller(self, authorization: str | None) -> Caller:
        """Return the caller of an `Authorization` header; raise Unauthenticated with the reason."""
        if not authorization:
            raise Unauthenticated
        digest = self.digest(authorization)
        if digest is None:
            raise Unauthenticated("The Authorization header must read `Bearer <key>`.")
        caller = self.find(digest)
        if caller is None:
            raise Unauthenticated(_UNKNOWN)
        return caller

    def find(self, digest: bytes) -> Caller | None:
        """Return the owner of a key, None for an unknown digest; raise Unauthenticated if it is over."""
        found = self._callers.get(digest)
        if found is None:
            if digest in self._revoked:
                raise Unauthenticated(_UNKNOWN)
            return None
        caller, expires_at = found
        now = time.time()
        if expires_at <= now:
            raise Unauthenticated("The key has expired. Ask the operator for a new one.")
        if caller.key_id is not None:
            self.used[caller.key_id] = now
        return caller

    @staticmethod
    def digest(authorization: str | None) -> bytes | None:
        """Return the digest of the key in an `Authorization` header, or None where it holds no bearer key."""
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip()
        if not token or scheme.lower() != "bearer":
            return None
        return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
