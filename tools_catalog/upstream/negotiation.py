"""Which era an upstream is of: `server/discover` first, then `initialize` (MCP 2026-07-28, Versioning).

An upstream that cannot be reached, or whose proxy says that it is away, has said nothing of its era: then the attempt
to connect ends. Any other answer that is no `DiscoverResult` is that of a server with sessions.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sessions_app.protocol import errors, revisions
from sessions_app.protocol.json import Json
from tools_catalog.upstream import bridge, upstream_errors
from tools_catalog.upstream.bridge import Abilities
from tools_catalog.upstream.era import SERVER_INFO, Era, Handshake, Stateless
from tools_catalog.upstream.http import StatusError
from tools_catalog.upstream.results import result_of
from tools_catalog.upstream.transports.base import Message, OutgoingRequest, Transport, notification

logger = logging.getLogger(__name__)

_AWAY: Final = frozenset({502, 503, 504})
"""Statuses of a proxy whose server is not there."""
_PROBE_SECONDS: Final = 10.0
"""For an answer to `server/discover`. A server that keeps silent about what it does not know has sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """How the hub introduces itself to an upstream."""

    hub_version: str
    can_ask: Abilities
    seconds: float
    """For the whole of connecting."""


async def negotiate(transport: Transport, own: Introduction, ids: Iterator[int]) -> tuple[Transport, Era]:
    """Find out the era; give the transport for it, which may be another. Raises a HubError, SessionLost."""
    era = await _probed(transport, own, ids)
    if era is not None:
        return transport, era
    try:
        return await begun(transport, own, ids)
    except errors.UpstreamError as error:
        if error.details.get("upstream", {}).get("code") != errors.UNSUPPORTED_PROTOCOL_VERSION:
            raise
        # A child that was slow to start took the probe after all, and with it the era.
        era = await _probed(transport, own, ids)
        if era is None:
            raise
        return transport, era


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
    if not isinstance(version, str) or not isinstance(capabilities, dict):
        raise errors.ResultInvalid("The upstream's answer to initialize breaks the protocol.")
    if version not in revisions.HANDSHAKE:
        raise errors.ConnectionFailed(f"The upstream wants to speak {version[:40]!r}, which the hub does not.")
    await transport.begin_session(version)
    try:
        await transport.send(notification("notifications/initialized", {}))
    except StatusError as error:
        logger.info("An upstream refused notifications/initialized: %s", error)
    return transport, Handshake(version, capabilities, result.get("serverInfo"))


async def _probed(transport: Transport, own: Introduction, ids: Iterator[int]) -> Era | None:
    """Ask for the era without sessions; None where the upstream is not of it. Raises ConnectionFailed."""
    version = revisions.NEWEST
    blank = Stateless(version, {}, None, own.hub_version)
    for attempt in itertools.count():
        params = blank.params({}, own.can_ask)
        try:
            async with asyncio.timeout(min(_PROBE_SECONDS, own.seconds / 2)):
                message = await transport.exchange(OutgoingRequest(next(ids), "server/discover", params))
        except TimeoutError:
            return None
        except errors.TransportError:
            if attempt:
                return None  # who breaks off each time may be one that knows no such method
            continue
        except StatusError as error:
            if error.status in _AWAY:
                raise errors.ConnectionFailed(f"The upstream answered with status {error.status}.") from error
            return None
        except (errors.UpstreamError, errors.ResultInvalid):
            return None
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


def _supported(message: Message) -> list[str] | None:
    """Give the revisions that an upstream names which refuses the one it was asked in; None for any other response."""
    error = message.get("error")
    if not isinstance(error, dict) or error.get("code") != errors.UNSUPPORTED_PROTOCOL_VERSION:
        return None
    data = error.get("data")
    return _texts(data, "supported") if isinstance(data, dict) and "supported" in data else [*revisions.HANDSHAKE]


def _told_era(message: Message, version: str, own: Introduction) -> Era | None:
    """Give the era of an upstream that describes itself; None where the response is no `DiscoverResult`."""
    result = message.get("result")
    if not isinstance(result, dict) or version not in _texts(result, "supportedVersions"):
        return None
    capabilities, meta = result.get("capabilities"), result.get("_meta")
    if not isinstance(capabilities, dict):
        return None
    server = meta.get(SERVER_INFO) if isinstance(meta, dict) else None
    return Stateless(version, capabilities, server, own.hub_version)


def _texts(holder: Json, member: str) -> list[str]:
    found = holder.get(member) if isinstance(holder, dict) else None
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
