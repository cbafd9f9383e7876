"""The one value that every door builds of who is calling, and the snapshot of keys that it is built from."""

from __future__ import annotations

import hashlib
import logging
import time
from dataclasses import dataclass, field
from typing import Any

from sessions_app.protocol.errors import Forbidden, Unauthenticated

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls, told by the credential alone; no header, path or parameter adds to it."""

    principal: str
    """`key:<id>`, `user:<id>` or `anonymous`."""
    label: str
    scopes: frozenset[str]
    groups: frozenset[int] = frozenset()
    calls_per_minute: int | None = None
    sees_everything: bool = False
    """A superuser trying tools in the admin."""
    key_id: int | None = None
    origins: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    """A cache of this process for what is built of the caller; it goes with the snapshot of keys."""

    def need(self, scope: str) -> None:
        """Raise Forbidden where the credential does not carry `scope`."""
        if scope not in self.scopes:
            raise Forbidden(f"The key lacks the scope {scope}. Ask the operator for a key that has it.", scope=scope)


ANONYMOUS = Caller(principal="anonymous", label="anonymous", scopes=frozenset({"tools:list", "tools:call"}))


class Keys:
    """All usable keys at one moment, by the digest of their text. Immutable but for `used`."""

    def __init__(self, callers: dict[bytes, tuple[Caller, float]]) -> None:
        self._callers = callers
        self.used: dict[int, float] = {}
        """Key id -> when last seen (seconds since the epoch); flushed to the database now and then."""

    @classmethod
    def load(cls) -> Keys:
        from sessions_app.models import ApiKey

        callers = {}
        for key in ApiKey.objects.filter(revoked_at__isnull=True).prefetch_related("groups"):
            caller = Caller(
                principal=f"key:{key.pk}",
                label=key.name,
                scopes=frozenset(key.scopes),
                groups=frozenset(group.pk for group in key.groups.all()),
                calls_per_minute=key.calls_per_minute,
                key_id=key.pk,
            )
            try:
                digest = bytes.fromhex(key.secret_hash)
            except ValueError:
                logger.error("The key %s has a malformed hash and is left out", key.pk)
                continue
            callers[digest] = (caller, key.expires_at.timestamp() if key.expires_at else float("inf"))
        return cls(callers)

    def caller(self, authorization: str | None) -> Caller:
        """Give the caller of an `Authorization` header; raise Unauthenticated with the reason."""
        if not authorization:
            raise Unauthenticated
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise Unauthenticated("The Authorization header must read `Bearer <key>`.")
        found = self._callers.get(hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest())
        now = time.time()
        if found is None:
            raise Unauthenticated("The key is unknown or was revoked. Ask the operator for a new one.")
        if found[1] <= now:
            raise Unauthenticated("The key has expired. Ask the operator for a new one.")
        if found[0].key_id is not None:
            self.used[found[0].key_id] = now
        return found[0]
