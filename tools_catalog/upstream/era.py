"""How a session with an upstream goes on after it began: an object for each era of the protocol.

`Handshake` is the agreement of `initialize`, `Stateless` the answer of `server/discover`. Nobody else asks for the
revision.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Final, Protocol

from sessions_app.protocol import envelope, errors, revisions, tasks
from sessions_app.protocol.json import Json
from tools_catalog.upstream import bridge, upstream_errors
from tools_catalog.upstream.bridge import Abilities
from tools_catalog.upstream.elicitation_ids import Remember
from tools_catalog.upstream.listing import CAPABILITIES, KINDS, PROMPT, RESOURCE, TOOL
from tools_catalog.upstream.transports.base import ENDED, SessionLost
from tools_catalog.upstream.transports.refusals import error_loses_session

logger = logging.getLogger(__name__)

SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"


def capabilities_of(found: Json) -> dict[str, Json]:
    """Return capabilities as an object, whatever they are: PHP writes an empty object as `[]`, others `true`."""
    return found if isinstance(found, dict) else {}


class Requester(Protocol):
    """An era's needs from the client: requests that belong to no call."""

    async def ask(self, method: str, params: Mapping[str, Json]) -> dict[str, Json]: ...


class Era(Protocol):
    version: str
    server: str
    """Name and version of the upstream's program, as stated by it."""
    asks_within_calls: bool
    """The upstream asks by requests of its own, in the midst of a call, and learns once which it may send."""

    offers_tasks: bool
    """The upstream may answer calls with tasks, as one with the extension of 2026-07-28 may."""
    capabilities: dict[str, Json]
    takes_core_tasks: bool
    """A call may request a task, as those of 2025-11-25 may if the upstream declares it."""

    def has(self, kind: str, ability: str = "") -> bool:
        """Return whether the upstream declares this kind, with this ability."""
        ...

    @property
    def capability_names(self) -> frozenset[str]:
        """The names of what the upstream declares, but for extensions."""
        ...

    @property
    def extensions(self) -> frozenset[str]:
        """The extensions of MCP that the upstream declares."""
        ...

    @property
    def is_silent(self) -> bool:
        """Whether the upstream says of no kind that it offers it; then it is asked for each."""
        ...

    def declares(self, extension: str) -> bool:
        """Return whether the upstream declares an extension of MCP."""
        ...

    def params(
        self, params: Mapping[str, Json], can_ask: Abilities, progress_token: int | None = None
    ) -> Mapping[str, Json]:
        """Return the params of a request as this era sends them."""
        ...

    async def want_log_level(self, client: Requester, level: str) -> None:
        """Have the upstream send log messages of this level to a call that follows."""
        ...

    async def subscribe(self, client: Requester, before: frozenset[str], wanted: frozenset[str]) -> None:
        """Request notifications about changes of these resources and of no others."""
        ...

    async def follow(self, client: Requester, seconds: float) -> None:
        """Receive change notifications as long as the session lasts; `seconds` lie between attempts."""
        ...

    def error(self, code: int, message: str, data: Json, remember: Remember | None) -> errors.ToolFailure | SessionLost:
        """Return the upstream's own error as ours; SessionLost where it says that it knows the session no more."""
        ...


class _UpstreamIdentity:
    """An upstream's description of itself at the beginning of the session."""

    def __init__(self, version: str, capabilities: dict[str, Json], server: Json) -> None:
        self.version = version
        self.capabilities = capabilities
        named = server if isinstance(server, dict) else {}
        words = (named.get("name"), named.get("version"))
        self.server = " ".join(word for word in words if isinstance(word, str))[:200]

    def has(self, kind: str, ability: str = "") -> bool:
        found = self.capabilities.get(CAPABILITIES[kind])
        if ability:
            return isinstance(found, dict) and found.get(ability) is True
        return found is not None and found is not False

    def declares(self, extension: str) -> bool:
        found = self.capabilities.get("extensions")
        return isinstance(found, dict) and isinstance(found.get(extension), dict)

    @property
    def capability_names(self) -> frozenset[str]:
        return frozenset(self.capabilities) - {"extensions"}

    @property
    def extensions(self) -> frozenset[str]:
        found = self.capabilities.get("extensions")
        return frozenset(found) if isinstance(found, dict) else frozenset()

    @property
    def is_silent(self) -> bool:
        return not any(self.has(kind) for kind in KINDS)


class Handshake(_UpstreamIdentity):
    """A session that `initialize` began (2024-11-05 to 2025-11-25)."""

    asks_within_calls = True
    offers_tasks = False

    def __init__(self, version: str, capabilities: dict[str, Json], server: Json) -> None:
        super().__init__(version, capabilities, server)
        self._log_level = ""
        found: Json = capabilities
        for name in ("tasks", "requests", "tools", "call"):
            found = found.get(name) if isinstance(found, dict) else None
        self.takes_core_tasks = found is not None and revisions.revision(version).core_tasks

    def params(
        self, params: Mapping[str, Json], can_ask: Abilities, progress_token: int | None = None
    ) -> Mapping[str, Json]:
        if progress_token is None:
            return params
        return {**params, "_meta": {**params.get("_meta", {}), "progressToken": progress_token}}

    async def want_log_level(self, client: Requester, level: str) -> None:
        """A session has one level for all its calls: the lowest that one wanted."""
        if not isinstance(self.capabilities.get("logging"), dict):
            return
        levels = envelope.LOG_LEVELS
        if not self._log_level or levels.index(level) < levels.index(self._log_level):
            self._log_level = level
            with contextlib.suppress(errors.UpstreamError, errors.ResultInvalid):
                await client.ask("logging/setLevel", {"level": level})

    async def subscribe(self, client: Requester, before: frozenset[str], wanted: frozenset[str]) -> None:
        if not self.has(RESOURCE, "subscribe"):
            return
        for method, uris in (("resources/subscribe", wanted - before), ("resources/unsubscribe", before - wanted)):
            for uri in sorted(uris):
                try:
                    await client.ask(method, {"uri": uri})
                except (errors.UpstreamError, errors.ResultInvalid) as error:
                    logger.info("An upstream refused %s of %s: %s", method, uri[:200], error)
                except SessionLost as error:
                    raise errors.TransportError(str(error)) from error

    async def follow(self, client: Requester, seconds: float) -> None:
        """The upstream sends change notifications by itself."""

    def error(self, code: int, message: str, data: Json, remember: Remember | None) -> errors.ToolFailure | SessionLost:
        found = upstream_errors.upstream_error(code, message, data, remember)
        return SessionLost(ENDED, found) if error_loses_session(code, message) else found


class Stateless(_UpstreamIdentity):
    """Requests that describe themselves (from 2026-07-28 on)."""

    asks_within_calls = False
    takes_core_tasks = False

    def __init__(self, version: str, capabilities: dict[str, Json], server: Json, hub_version: str) -> None:
        super().__init__(version, capabilities, server)
        self._meta = {
            envelope.PROTOCOL_VERSION: version,
            envelope.CLIENT_INFO: {"name": "mcphub", "version": hub_version},
        }
        self.offers_tasks = tasks.declared(capabilities)
        self._subscribed: frozenset[str] = frozenset()
        self._again = asyncio.Event()
        """The requested notifications changed, so the request is repeated."""

    def params(
        self, params: Mapping[str, Json], can_ask: Abilities, progress_token: int | None = None
    ) -> Mapping[str, Json]:
        meta = {**params.get("_meta", {}), **self._meta, envelope.CLIENT_CAPABILITIES: bridge.declared(can_ask)}
        if progress_token is not None:
            meta["progressToken"] = progress_token
        return {**params, "_meta": meta}

    async def want_log_level(self, client: Requester, level: str) -> None:
        """Each request states its log level itself."""

    async def subscribe(self, client: Requester, before: frozenset[str], wanted: frozenset[str]) -> None:
        self._subscribed = wanted
        if self.has(RESOURCE, "subscribe"):
            self._again.set()

    async def follow(self, client: Requester, seconds: float) -> None:
        """Keep a stream of changes (MCP 2026-07-28, Subscriptions). Refused or lost, it is asked for after a while."""
        while True:
            self._again.clear()
            again = asyncio.ensure_future(self._again.wait())
            listening = asyncio.ensure_future(self._listen(client))
            try:
                await asyncio.wait({listening, again}, return_when=asyncio.FIRST_COMPLETED)
                if not again.done():
                    await asyncio.wait({again}, timeout=seconds)
            finally:
                again.cancel()
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)

    async def _listen(self, client: Requester) -> None:
        """Hold one stream until it ends. Its messages are handled like every notification."""
        names = {"toolsListChanged": TOOL, "resourcesListChanged": RESOURCE, "promptsListChanged": PROMPT}
        wanted: dict[str, Json] = {name: True for name, kind in names.items() if self.has(kind, "listChanged")}
        if self._subscribed and self.has(RESOURCE, "subscribe"):
            wanted["resourceSubscriptions"] = sorted(self._subscribed)
        if not wanted:
            await asyncio.Event().wait()
        with contextlib.suppress(errors.HubError, SessionLost):  # the lists are asked for again in their time
            await client.ask("subscriptions/listen", {"notifications": wanted})

    def error(self, code: int, message: str, data: Json, remember: Remember | None) -> errors.ToolFailure:
        if code == errors.UNSUPPORTED_PROTOCOL_VERSION:
            return errors.ConnectionFailed("The upstream no longer speaks the revision that it spoke before.")
        return upstream_errors.upstream_error(code, message, data, remember)
