"""The hub as the client of one upstream: one session, for every revision and on every transport.

Requests get their ids here, and their responses become results or errors. Differences of eras are in the `era`,
differences of ways in the `transport`; requests and notifications of the upstream go to `incoming`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from sessions_app.kit import tracing
from sessions_app.protocol import envelope, errors, json
from sessions_app.protocol.json import Json
from tools_catalog.call.context import ToolContext
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.upstream import bridge, core_tasks, negotiation
from tools_catalog.upstream.account import Account, AccountNeeded, AccountRefused
from tools_catalog.upstream.bridge import TASKS, Abilities
from tools_catalog.upstream.calls import CallsUnderWay
from tools_catalog.upstream.era import Era
from tools_catalog.upstream.http import HttpEndpoint
from tools_catalog.upstream.incoming import Incoming
from tools_catalog.upstream.listing import AS_TASK, MAX_ANSWERS, MAX_OFFERS, MAX_PAGES, METHODS, TEMPLATE, TOOL, size_of
from tools_catalog.upstream.negotiation import Agreement, Introduction, NotOutlived, Probed
from tools_catalog.upstream.results import result_of
from tools_catalog.upstream.scrubbing import Scrubber
from tools_catalog.upstream.spec import HANDSHAKE, SSE, STATELESS, STDIO, ConnectionSpec
from tools_catalog.upstream.transports.base import Follow, OutgoingRequest, SessionLost, Transport
from tools_catalog.upstream.transports.event_stream import EventStream
from tools_catalog.upstream.transports.shared import StreamBroken
from tools_catalog.upstream.transports.stdio import LastWords, Stdio
from tools_catalog.upstream.transports.streamable_http import StatelessHttp

_ASKS_NOTHING: Final[Abilities] = frozenset()
_ASKS_TASKS: Final[Abilities] = frozenset({TASKS})

_LAST_LINE: Final = 200
"""Characters of a program's last output in the message of a failure."""
_UNDECLARED_SECONDS: Final = 3.0
"""For a list of a kind that an upstream does not declare."""

logger = logging.getLogger(__name__)

Agree = Callable[[Transport, Introduction, Iterator[int]], Awaitable[Agreement]]
"""A way to find out, or to take for known, how a session goes on."""


class UpstreamClient:
    """`open` it, use it from any task, `close` it; `closed` is set once it can serve no more."""

    era: Era
    """The upstream's description of itself. There once it is open."""

    def __init__(
        self,
        spec: ConnectionSpec,
        secret: Scrubber,
        version: str,
        *,
        list_changed: Callable[..., None] = lambda *kinds: None,
        updated: Callable[[str], None] = lambda uri: None,
        person_done: Callable[[str], None] = lambda elicitation_id: None,
        can_ask: Abilities = frozenset(),
        like: UpstreamClient | None = None,
        policy: EgressPolicy | None = None,
        is_unprobed: bool = False,
        account: Account | None = None,
    ) -> None:
        """`can_ask` is declared to the upstream as the supported subjects of its requests. `like` is a client of the
        same upstream, with a known era. `account` is its authentication there. `is_unprobed`: the upstream is
        known not to answer a probe. Without a `policy` that of the settings holds.
        """
        self._spec = spec
        self._policy = policy
        self._secret = secret
        self._introduction = Introduction(hub_version=version, can_ask=can_ask, seconds=spec.begins_within)
        self._place = _place(spec)
        self._like = like
        self._account = account
        self._is_unprobed = is_unprobed
        self.probed = Probed.NOT
        """The outcome of the probe for the era. Declared once it is open."""
        self._ids = itertools.count(1)
        self._transport: Transport | None = None
        self._param_headers: dict[str, tuple[envelope.ParamHeader, ...]] = {} if like is None else like._param_headers
        """Tool -> its arguments that headers repeat."""
        self._following: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self.subscribed: frozenset[str] = frozenset()
        """The resources with change notifications in this session."""
        self.calls = CallsUnderWay()
        self.serves_all = spec.transport == STDIO
        """No call needs a session of its own: a process is one, and a request that describes itself needs none."""
        self.serves = False
        """It has been opened well."""
        self.closed = asyncio.Event()
        self.why_closed = ""
        self.cut: dict[str, str] = {}
        """Kind -> why its list was not read to its end."""
        self.last_words = LastWords()
        self.last_used = self._opened_at = asyncio.get_running_loop().time()
        self._incoming = Incoming(
            secret,
            self.calls,
            self._send,
            self.lose,
            can_ask=can_ask,
            asking=spec.asking,
            list_changed=list_changed,
            updated=updated,
            person_done=person_done,
        )

    async def open(self) -> None:
        """Connect and negotiate; raise ConnectionFailed or EgressRefused with the reason.

        Raises NotOutlived where another session may begin well, one that is `is_unprobed`.
        """
        try:
            async with asyncio.timeout(self._spec.begins_within):
                await self._connect()
        except BaseException as error:
            self.lose("The connection was not made.")
            await self.close()
            if isinstance(error, errors.ConnectionFailed | errors.EgressRefused | NotOutlived):
                raise
            if isinstance(error, AccountNeeded | AccountRefused):
                raise
            if isinstance(error, Exception):
                raise self._failure(error) from error
            raise

    async def close(self) -> None:
        self.lose("The connection ended.")
        ending = self._ending
        assert ending is not None
        # To the end, also when this task is cancelled: a child must not outlive its connection.
        is_cancelled = False
        while not ending.done():
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:
                is_cancelled = True
        if is_cancelled:
            raise asyncio.CancelledError

    def lose(self, why: str) -> None:
        """Take the session for gone: calls under way end, nothing new begins."""
        if self.closed.is_set():
            return
        self.why_closed = why
        self.closed.set()
        if self._transport is not None:
            self._transport.abort()
        self._ending = asyncio.get_running_loop().create_task(
            self._end(), name=f"mcphub-upstream-{self._spec.slug}-end", context=contextvars.Context()
        )

    async def request(
        self,
        method: str,
        params: Mapping[str, Json],
        context: ToolContext | None = None,
        *,
        follows_tasks: bool = False,
        follow: Follow | None = None,
    ) -> dict[str, Json]:
        """Send one request, for the call of `context` where there is one; give its result as it came.

        `follows_tasks` lets an upstream that offers tasks answer with one. `follow` takes its notifications.

        Raises SessionLost where nothing ran, UpstreamError for the upstream's own error, ConnectionFailed,
        TransportError, ResultInvalid.
        """
        with self._span(method, params) as span:
            return await self._answered(method, span.injected(params), context, follows_tasks, follow)

    async def _answered(
        self,
        method: str,
        params: Mapping[str, Json],
        context: ToolContext | None,
        follows_tasks: bool,
        follow: Follow | None,
    ) -> dict[str, Json]:
        self.last_used = asyncio.get_running_loop().time()
        transport = self._transport
        if transport is None or self.closed.is_set():
            raise SessionLost(self.why_closed)
        id_, can_ask = next(self._ids), _ASKS_TASKS if follows_tasks else _ASKS_NOTHING
        progress_token = None
        if context is not None:
            call = context.call
            if call.log_level is not None:
                await self.era.want_log_level(self, call.log_level)
            if call.client_capabilities and self._spec.asking:
                can_ask |= bridge.permitted(bridge.abilities(context), self._spec.asking, call.client_capabilities)
            if call.meta is not None and "progressToken" in call.meta:
                progress_token = id_
        headers = self._param_headers.get(params["name"], ()) if self._param_headers and method == "tools/call" else ()
        request = OutgoingRequest(
            id_, method, self.era.params(params, can_ask, progress_token), context, headers, follow
        )
        self.calls.requests[id_] = request
        try:
            return result_of(await transport.exchange(request), self._error)
        except SessionLost as error:
            self.lose(str(error))
            raise
        finally:
            del self.calls.requests[id_]

    def _span(self, method: str, params: Mapping[str, Json]) -> tracing.Operation | tracing.NoSpan:
        """Return the span of a request to the upstream. Its subject is named as the catalogue approved it."""
        if not tracing.is_on():
            return tracing.NO_SPAN
        is_tool = method == "tools/call"
        target = params.get("name") if is_tool or method == "prompts/get" else ""
        return tracing.sent(method, str(target or ""), self._place, params, is_tool=is_tool)

    async def ask(self, method: str, params: Mapping[str, Json]) -> dict[str, Json]:
        """Send a request that belongs to no call."""
        return await self.request(method, params)

    async def list_offers(self, kind: str) -> list[Json]:
        """Return the listed entries of a kind on all pages, as received; nothing if it offers none."""
        if self.era.has(kind):
            return await self.pages(kind, *METHODS[kind])
        if not self.era.is_silent:
            return []
        try:  # it says nothing of itself, so what it does counts; what it does not know it may not even refuse
            async with asyncio.timeout(min(_UNDECLARED_SECONDS, self._spec.connect_seconds / 8)):
                return await self.pages(kind, *METHODS[kind])
        except (TimeoutError, errors.UpstreamError, errors.ResultInvalid):
            return []

    async def pages(self, kind: str, method: str, member: str) -> list[Json]:
        """Read pages until there is none, one repeats, or the bounds are reached. Received pages are kept."""
        listed: list[Json] = []
        seen: set[str] = set()
        most = self._spec.max_response_bytes
        left = MAX_ANSWERS * most
        cursor: Json = None
        self.cut.pop(kind, None)
        for number in range(MAX_PAGES):
            try:
                page = await self.request(method, {} if cursor is None else {"cursor": cursor})
            except errors.UpstreamError as error:
                if kind == TEMPLATE and error.details.get("upstream", {}).get("code") == errors.METHOD_NOT_FOUND:
                    return []  # one that has resources need not have templates
                if not listed:
                    raise
                return self._cut(kind, member, listed, f"page {number + 1} failed: {error}")
            found = page.get(member)
            found = list(found.values()) if isinstance(found, dict) else found if isinstance(found, list) else []
            left -= size_of(found, most)
            if left < 0:
                return self._cut(kind, member, listed, f"it has more than {MAX_ANSWERS * most} bytes.")
            news = [one for one in found if _not_seen(one, seen)]
            listed += self._read_tools(news) if kind == TOOL else news
            if len(listed) > MAX_OFFERS:
                return self._cut(kind, member, listed[:MAX_OFFERS], f"the hub takes {MAX_OFFERS}.")
            before, cursor = cursor, page.get("nextCursor")
            if not cursor or not isinstance(cursor, str | int):
                return listed
            if cursor == before or (found and not news):
                return self._cut(kind, member, listed, "its pages repeat.")
        return self._cut(kind, member, listed, f"it does not end after {MAX_PAGES} pages.")

    def _cut(self, kind: str, member: str, listed: list[Json], why: str) -> list[Json]:
        """Note why a list ends here, and return the entries so far."""
        words = f"The list of {member} was cut after {len(listed)}: {why}"
        self.cut[kind] = words[:300]
        logger.warning("The upstream %s: %s", self._spec.slug, words)
        return listed

    async def subscribe(self, uris: frozenset[str]) -> None:
        """Request notifications for these resources and no others, if the upstream supports any."""
        before, self.subscribed = self.subscribed, uris
        await self.era.subscribe(self, before, uris)

    def _error(self, code: int, words: str, data: Json) -> errors.ToolFailure | SessionLost:
        return self.era.error(code, words, data, self._incoming.addresses.remember)

    # Beginning and end -------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        self._transport = self._made()
        await self._transport.open()
        agreed = await self._way_to_agree()(self._transport, self._introduction, self._ids)
        self._transport, self.era, self.probed = agreed.transport, agreed.era, agreed.probed
        self.serves = True
        keeps_nothing = not self.era.asks_within_calls and not self._spec.is_personal
        self.serves_all = self.serves_all or keeps_nothing
        if self._like is None:
            self._following = asyncio.create_task(
                self.era.follow(self, self._spec.connect_seconds),
                name=f"mcphub-upstream-{self._spec.slug}-changes",
                context=contextvars.Context(),
            )

    def _way_to_agree(self) -> Agree:
        """Choose by the known facts about the upstream's era. HTTP+SSE is no transport of the stateless one."""
        spec = self._spec
        if self._like is not None and not self._like.era.asks_within_calls:
            return negotiation.stateless
        if self._like is not None or spec.transport == SSE or spec.era == HANDSHAKE:
            return negotiation.handshake
        if spec.era == STATELESS:
            return negotiation.stateless
        return negotiation.handshake if self._is_unprobed else negotiation.negotiate

    def _made(self) -> Transport:
        if self._spec.transport == STDIO:
            return Stdio(self._spec, self._secret, self._incoming, self.last_words)
        known = self._secret.know
        http = HttpEndpoint(self._spec, self._secret, self._policy, account=self._account, token_known=known)
        if self._spec.transport == SSE:
            return EventStream(self._spec, http, self._incoming)
        return StatelessHttp(self._spec, http, self._incoming)

    async def _end(self) -> None:
        if self.serves:
            lasted = asyncio.get_running_loop().time() - self._opened_at
            tracing.session_ended("client", lasted, {**self._place, "mcp.protocol.version": self.era.version})
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await self._incoming.close()
        if self._transport is not None:
            await self._transport.close()

    def _failure(self, error: Exception) -> errors.ConnectionFailed:
        """Return one sentence about a failed connection, without secrets."""
        if isinstance(error, TimeoutError):
            return errors.ConnectionFailed(self._too_late())
        if isinstance(error, errors.ResultInvalid):
            return errors.ConnectionFailed(str(error))
        if isinstance(error, StreamBroken) and error.why:  # there is no call yet
            return errors.ConnectionFailed(error.why)
        if isinstance(error, errors.HubError | SessionLost):
            failure = errors.ConnectionFailed(str(error))
            if isinstance(error, errors.HubError):
                failure.retry_after_seconds = error.retry_after_seconds
            return failure
        logger.error("The connection to %s failed", self._spec.slug, exc_info=error)
        return errors.ConnectionFailed(f"{type(error).__name__}: {str(error)[:300]}")

    def _too_late(self) -> str:
        """Say that nothing came in time; of a program also how it is doing, as a first start may fetch a package."""
        words = f"The upstream did not answer within {self._spec.begins_within:g} s."
        if self._spec.transport != STDIO:
            return words
        *_, last = ["", *str(self.last_words).splitlines()]
        wrote = f" It wrote last: {last[:_LAST_LINE]}" if last else " It wrote nothing to stderr."
        return (
            f"{words} The program was started.{wrote} A first start may have to download packages: test it again, or "
            "give the connection more time to connect (connect_seconds)."
        )

    async def _send(self, message: bytes) -> None:
        if self._transport is not None:
            await self._transport.send(message)

    def _read_tools(self, tools: list[Json]) -> list[Json]:
        """Return tools with their task support where it counts; note the arguments that headers repeat."""
        for tool in tools:
            schema = tool.get("inputSchema") if isinstance(tool, dict) else None
            if isinstance(schema, dict) and isinstance(tool.get("name"), str):
                with contextlib.suppress(ValueError, RecursionError):  # such a tool is refused when it is listed
                    if found := envelope.param_headers(schema):
                        self._param_headers[tool["name"]] = found
        if self.era.offers_tasks:
            return [{**tool, "execution": AS_TASK} if isinstance(tool, dict) else tool for tool in tools]
        if not self.era.takes_core_tasks:
            return [core_tasks.without_support(tool) for tool in tools]
        return tools


def _not_seen(one: Json, seen: set[str]) -> bool:
    """Return whether this is the first of its like. Pages that overlap list some twice."""
    try:
        mark = json.digest(json.canonical(one))
    except (ValueError, TypeError, RecursionError, errors.ProtocolError):
        return True
    is_new = mark not in seen
    seen.add(mark)
    return is_new


def _place(spec: ConnectionSpec) -> dict[str, tracing.Attribute]:
    """Return the location of an upstream for spans and durations."""
    if spec.transport == STDIO:
        return {**tracing.TRANSPORT_PIPE, "mcphub.connection": spec.slug}
    url = urlsplit(spec.url)
    port = url.port or (443 if url.scheme == "https" else 80)
    return {
        **tracing.TRANSPORT_HTTP,
        "mcphub.connection": spec.slug,
        "server.address": url.hostname or "",
        "server.port": port,
    }
