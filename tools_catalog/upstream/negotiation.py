"""Which era an upstream is of: `server/discover` first, then `initialize` (MCP 2026-07-28, Versioning).

An unreachable upstream, or a proxy's report of its absence, reveals nothing about its era: then the attempt to
connect ends. Any other answer that is no `DiscoverResult` is that of a server with sessions. Some servers do not
survive the probe, or fall silent after it: those are detected here and connected anew, without one, by the client.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from sessions_app.protocol import errors, revisions
from sessions_app.protocol.json import Json
from tools_catalog.upstream import bridge, upstream_errors
from tools_catalog.upstream.account import AccountNeeded, AccountRefused
from tools_catalog.upstream.bridge import Abilities
from tools_catalog.upstream.era import SERVER_INFO, Era, Handshake, Stateless, capabilities_of
from tools_catalog.upstream.http import CredentialsRefused, StatusError
from tools_catalog.upstream.results import result_of
from tools_catalog.upstream.transports.base import OutgoingRequest, SessionLost, Transport, notification
from tools_catalog.upstream.transports.reading import Message

logger = logging.getLogger(__name__)

_AWAY: Final = frozenset({502, 503, 504})
"""Statuses of a proxy without its server."""
_FAILED: Final = 500
"""From this status on the server did not answer, it broke at the request; some break for all that follow."""
_PROBE_SECONDS: Final = 10.0
"""For an answer to `server/discover`. A server that is silent about unknown methods has sessions."""

_WORTH_WAITING: Final = 0.9
"""This part of its time an upstream has to begin that did not answer a probe: it may still be starting."""


class Probed(Enum):
    """The outcome of the probe for the era."""

    NOT = "not asked"
    ANSWERED = "answered"
    UNANSWERED = "no answer"


class NotOutlived(Exception):
    """The upstream ended, or fell silent, after a probe. It may begin well without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """How the hub introduces itself to an upstream."""

    hub_version: str
    can_ask: Abilities
    seconds: float
    """For the whole of connecting."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How a session goes on: the transport may be another than the one that was asked."""

    transport: Transport
    era: Era
    probed: Probed


async def negotiate(transport: Transport, own: Introduction, ids: Iterator[int]) -> Agreement:
    """Find out the era. Raises a HubError, SessionLost; NotOutlived where it is worth a try without a probe."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + _WORTH_WAITING * own.seconds
    with _Probe(transport, own, ids) as probe:
        if (agreed := await probe.agreed()) is not None:
            return agreed
        if probe.is_broken_off and transport.is_one_stream:
            raise NotOutlived
        try:
            async with asyncio.timeout_at(ends_at):
                try:
                    spoken, begun_era = await begun(transport, own, ids)
                except errors.HubError as error:
                    if isinstance(probe.failure, AccountRefused):
                        raise probe.failure from error
                    raise
        except StatusError as error:
            if probe.is_answered or error.status < _FAILED:
                raise
            raise NotOutlived from error
        except errors.UpstreamError as error:
            if error.details.get("upstream", {}).get("code") != errors.UNSUPPORTED_PROTOCOL_VERSION:
                raise
            # A child that was slow to start took the probe after all, and with it the era.
            with _Probe(transport, own, ids) as again:
                if (agreed := await again.agreed()) is not None:
                    return agreed
            raise
        except (errors.TransportError, TimeoutError) as error:
            if probe.is_answered:
                raise
            raise NotOutlived from error
        return Agreement(spoken, begun_era, Probed.ANSWERED if probe.is_answered else Probed.UNANSWERED)


async def stateless(transport: Transport, own: Introduction, ids: Iterator[int]) -> Agreement:
    """Take an upstream for one without sessions, and for nothing else. Raises a HubError, SessionLost."""
    with _Probe(transport, own, ids) as probe:
        agreed = await probe.agreed()
    if agreed is not None:
        return agreed
    if probe.failure is not None:
        raise probe.failure
    raise errors.ConnectionFailed(
        f"The upstream does not answer server/discover as a server of {revisions.NEWEST} does. "
        "Set the era of the connection to auto or handshake."
    )


async def handshake(transport: Transport, own: Introduction, ids: Iterator[int]) -> Agreement:
    """Begin a session at once, without a probe. Raises a HubError, SessionLost."""
    return Agreement(*await begun(transport, own, ids), Probed.NOT)


async def begun(transport: Transport, own: Introduction, ids: Iterator[int]) -> tuple[Transport, Era]:
    """Begin a session with an upstream that has some."""
    transport = transport.with_sessions()
    params = {
        "protocolVersion": revisions.NEWEST_HANDSHAKE,
        "capabilities": bridge.declared(own.can_ask),
        "clientInfo": {"name": "mcphub", "version": own.hub_version},
    }
    try:
        message = await transport.exchange(OutgoingRequest(next(ids), "initialize", params))
    except errors.TransportError:  # who refused the probe may have closed its connection just then
        message = await transport.exchange(OutgoingRequest(next(ids), "initialize", params))
    result = result_of(message, upstream_errors.upstream_error)
    version, capabilities = result.get("protocolVersion"), result.get("capabilities")
    if not isinstance(version, str):
        raise errors.ResultInvalid("The upstream's answer to initialize names no revision of MCP.")
    if version not in revisions.HANDSHAKE:
        raise errors.ConnectionFailed(f"The upstream wants to speak {version[:40]!r}, which the hub does not.")
    await transport.begin_session(version)
    try:
        await transport.send(notification("notifications/initialized", {}))
    except StatusError as error:
        logger.info("An upstream refused notifications/initialized: %s", error)
    return transport, Handshake(version, capabilities_of(capabilities), result.get("serverInfo"))


class _Probe:
    """The question for the era. One that got no answer in its time is listened for until the end of the block."""

    def __init__(self, transport: Transport, own: Introduction, ids: Iterator[int]) -> None:
        self._transport = transport
        self._own = own
        self._ids = ids
        self._waiting: asyncio.Future[Message] | None = None
        self.failure: errors.HubError | SessionLost | None = None
        """Why the upstream did not answer, where that reveals nothing about its era."""

    def __enter__(self) -> _Probe:
        return self

    def __exit__(self, *_: object) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.cancel()

    @property
    def is_answered(self) -> bool:
        """Whether the upstream answered it in any way, if only now, be it that it has no such method."""
        waiting = self._waiting
        if waiting is None or not waiting.done() or waiting.cancelled() or self.is_broken_off:
            return False
        error = waiting.exception()
        return not isinstance(error, StatusError) or error.status < _FAILED

    @property
    def is_broken_off(self) -> bool:
        """Whether the connection ended instead of an answer."""
        waiting = self._waiting
        if waiting is None or not waiting.done() or waiting.cancelled():
            return False
        return isinstance(waiting.exception(), errors.TransportError | SessionLost)

    async def agreed(self) -> Agreement | None:
        """Return the agreement without sessions; None where the upstream is of another era. Raises ConnectionFailed."""
        era = await self._era()
        return None if era is None else Agreement(self._transport, era, Probed.ANSWERED)

    async def _era(self) -> Era | None:
        own, version = self._own, revisions.NEWEST
        blank = Stateless(version, {}, None, own.hub_version)
        for attempt in itertools.count():
            message = await self._ask(blank.params({}, own.can_ask))
            if message is None:
                if attempt or not self.is_broken_off or self._transport.is_one_stream:
                    return None  # who breaks off each time may be one that knows no such method
                continue
            supported = _supported(message)
            if supported is None:
                return _told_era(message, version, own)
            if version in supported and not attempt:
                continue
            if not set(supported) & {*revisions.HANDSHAKE}:
                named = ", ".join(supported)[:200] or "no revision that it names"
                raise errors.ConnectionFailed(f"The upstream speaks {named}, which the hub does not.")
            return None
        raise AssertionError("unreachable")

    async def _ask(self, params: Mapping[str, Json]) -> Message | None:
        """Send the question; return the response, None where none comes. Raises ConnectionFailed."""
        self.failure = None
        request = OutgoingRequest(next(self._ids), "server/discover", params)
        waiting = self._waiting = asyncio.ensure_future(self._transport.exchange(request))
        waiting.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.wait({waiting}, timeout=min(_PROBE_SECONDS, self._own.seconds / 2))
        if not waiting.done():
            if not self._transport.is_one_stream:
                waiting.cancel()  # its connection may be the only one that the server answers at a time
            return None
        try:
            return waiting.result()
        except AccountNeeded:
            raise  # whoever is not let in hears nothing of the era
        except (AccountRefused, CredentialsRefused, errors.TransportError, SessionLost) as error:
            self.failure = error  # some gateways refuse so what they do not know; `initialize` finds out
            return None
        except StatusError as error:
            if error.status in _AWAY:
                raise errors.ConnectionFailed(str(error)) from error
            if error.status >= _FAILED or error.was_not_made:
                self.failure = error
            return None
        except (errors.UpstreamError, errors.ResultInvalid):
            return None


def _supported(message: Message) -> list[str] | None:
    """Return the revisions that an upstream names which refuses the one it was asked in; None for any other
    response.
    """
    error = message.get("error")
    if not isinstance(error, dict) or error.get("code") != errors.UNSUPPORTED_PROTOCOL_VERSION:
        return None
    data = error.get("data")
    return _texts(data, "supported") if isinstance(data, dict) and "supported" in data else [*revisions.HANDSHAKE]


def _told_era(message: Message, version: str, own: Introduction) -> Era | None:
    """Return the era of an upstream that describes itself; None where the response is no `DiscoverResult`."""
    result = message.get("result")
    if not isinstance(result, dict) or version not in _texts(result, "supportedVersions"):
        return None
    capabilities, meta = capabilities_of(result.get("capabilities")), result.get("_meta")
    server = meta.get(SERVER_INFO) if isinstance(meta, dict) else None
    return Stateless(version, capabilities, server, own.hub_version)


def _texts(holder: Json, member: str) -> list[str]:
    found = holder.get(member) if isinstance(holder, dict) else None
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
