"""One session with an upstream on the official client. Imports the SDK, so it is imported when first needed.

The SDK's client must be entered and left in one task; that task is here. Calls run in the tasks of their callers.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from sessions_app.protocol import envelope, errors
from sessions_app.protocol.envelope import LOG_LEVELS
from tools_catalog import egress
from tools_catalog.backends.base import ToolContext
from tools_catalog.upstream import bridge, http
from tools_catalog.upstream.bridge import FORM, ROOTS, SAMPLING, TOOLS, URL, Abilities
from tools_catalog.upstream.calls import Calls, SessionLost
from tools_catalog.upstream.direct import Direct, Elsewhere
from tools_catalog.upstream.listing import (
    CAPABILITIES,
    MAX_OFFERS,
    MAX_PAGES,
    METHODS,
    PROMPT,
    RESOURCE,
    TEMPLATE,
    TOOL,
    ListingInvalid,
)
from tools_catalog.upstream.scrubbing import Scrubber
from tools_catalog.upstream.spec import SSE, STDIO, STREAMABLE_HTTP, ConnectionSpec
from tools_catalog.upstream.stdio import LastWords, child

logger = logging.getLogger(__name__)

Json = Any

_RAW: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
"""Results are relayed as they came; the SDK has checked them against the revision's shapes before."""
_CHANGED: dict[type, tuple[str, ...]] = {
    types.ToolListChangedNotification: (TOOL,),
    types.ResourceListChangedNotification: (RESOURCE, TEMPLATE),
    types.PromptListChangedNotification: (PROMPT,),
    ToolsListChanged: (TOOL,),
    ResourcesListChanged: (RESOURCE, TEMPLATE),
    PromptsListChanged: (PROMPT,),
}
"""What an upstream says -> the kinds whose lists no longer count."""


class Session:
    """A connected client. `open` it, use it from any task, `close` it; `closed` is set once it can serve no more."""

    def __init__(
        self,
        spec: ConnectionSpec,
        secret: Scrubber,
        version: str,
        *,
        lasts_seconds: float,
        list_changed: Callable[..., None] = lambda *kinds: None,
        updated: Callable[[str], None] = lambda uri: None,
        can_ask: Abilities = frozenset(),
        like: Session | None = None,
    ) -> None:
        """`can_ask` is what the upstream is told that its questions may be about. `like` is a session with the same
        upstream, whose era needs not be asked for again."""
        self._spec = spec
        self._secret = secret
        self._version = version
        self._lasts_seconds = lasts_seconds
        self._list_changed = list_changed
        self._updated = updated
        self.subscribed: frozenset[str] = frozenset()
        """The resources of whose changes the upstream tells this session."""
        self._relisten = asyncio.Event()
        self._log_level = ""
        self._can_ask = can_ask
        self._like = like
        self._client: Client | None = None
        self.protocol_version = self.server = ""
        self._capabilities: types.ServerCapabilities | None = None
        """What it said when it connected; the client itself forgets that when it ends."""
        self.direct: Direct | None = None
        """The way past the SDK, where the upstream has no sessions."""
        self._headers: dict[str, tuple[envelope.ParamHeader, ...]] = {}
        """Tool -> its arguments that headers repeat."""
        self._task: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self.calls = Calls()
        self.closed = asyncio.Event()
        self.why_closed = ""
        self.last_words = LastWords()
        self.last_used = asyncio.get_running_loop().time()

    async def open(self) -> None:
        """Connect and negotiate; raise ConnectionFailed with what went wrong."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # In a context of its own: what a caller's task knows of its call must not stick to the session.
        self._task = asyncio.create_task(
            self._live(ready), name=f"mcphub-upstream-{self._spec.slug}", context=contextvars.Context()
        )
        try:
            async with asyncio.timeout(self._spec.connect_seconds):
                await asyncio.shield(ready)
        except TimeoutError:
            await self.close()
            raise errors.ConnectionFailed(
                f"The upstream did not answer within {self._spec.connect_seconds:g} s."
            ) from None
        except asyncio.CancelledError:
            await self.close()
            raise

    async def close(self) -> None:
        self._ending.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def lose(self, why: str) -> None:
        """Take the session for gone: what waits is told, and nothing new begins."""
        if not self.closed.is_set():
            self.why_closed = why
            self.closed.set()
            self._ending.set()

    @property
    def is_modern(self) -> bool:
        return self.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def request(
        self, method: str, params: dict[str, Json], context: ToolContext | None = None
    ) -> dict[str, Json]:
        """Send one request, for the call of `context` where there is one; give its result as it came.

        Raises SessionLost where nothing ran, UpstreamError for the upstream's own error, ConnectionFailed,
        TransportError, ResultInvalid.
        """
        self.last_used = asyncio.get_running_loop().time()
        if self.direct is not None and context is not None and not self.closed.is_set():
            can_ask = bridge.abilities(context) if self._spec.may_ask else frozenset()
            headers = self._headers.get(params["name"], ()) if method == "tools/call" and self._headers else ()
            try:
                return await self.direct.request(method, params, context, can_ask, headers)
            except Elsewhere:
                self.direct.close()
                self.direct = None
        if context is None:
            return await self._send(method, params, None)
        await self._raise_log_level(context.log_level)
        call = context

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            await call.progress(progress, total, None if message is None else self._secret.text(message))

        wants_progress = context.meta is not None and "progressToken" in context.meta
        with self.calls.under_way(context):
            return await self._send(method, params, on_progress if wants_progress else None)

    async def _raise_log_level(self, wanted: str | None) -> None:
        """Let a session with log messages send those of this level; it keeps to the most that a call wanted."""
        if wanted is None or self.is_modern or self._capabilities is None or self._capabilities.logging is None:
            return  # a request without sessions says its level itself
        if not self._log_level or LOG_LEVELS.index(wanted) < LOG_LEVELS.index(self._log_level):
            self._log_level = wanted
            with contextlib.suppress(errors.UpstreamError, errors.ResultInvalid):
                await self._send("logging/setLevel", {"level": wanted}, None)

    async def _send(self, method: str, params: dict[str, Json], on_progress: Any) -> dict[str, Json]:
        client = self._client
        if client is None or self.closed.is_set():
            raise SessionLost(self.why_closed)
        request = types.Request[dict[str, Any], str].model_construct(method=method, params=params)
        try:
            raw: dict[str, Json] = await client.session.send_request(
                request,
                _RAW,
                progress_callback=on_progress,  # type: ignore[type-var]  # an adapter of any type works
            )
            return raw
        except MCPError as error:
            raise self._translated(error) from error
        except ValidationError as error:
            raise errors.ResultInvalid(
                f"The upstream's answer to {method} breaks the protocol {self.protocol_version}."
            ) from error

    def has(self, kind: str, ability: str = "") -> bool:
        """Whether the upstream says that it offers this kind, and that it can do so much with it."""
        found = getattr(self._capabilities, CAPABILITIES[kind], None)
        return found is not None and (not ability or getattr(found, ability, None) is True)

    async def list_offers(self, kind: str) -> list[Json]:
        """Give what it lists of a kind on all pages, as it came; nothing where it offers none."""
        if not self.has(kind):
            return []
        method, member = METHODS[kind]
        listed: list[Json] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            try:
                page = await self.request(method, {} if cursor is None else {"cursor": cursor})
            except errors.UpstreamError as error:
                if kind == TEMPLATE and error.details.get("upstream", {}).get("code") == types.METHOD_NOT_FOUND:
                    return []  # one that has resources need not have templates
                raise
            found = page.get(member, [])
            listed += found if isinstance(found, list) else []
            if kind == TOOL:
                self._read_headers(listed)
                self._learn(page, whole=cursor is None and not page.get("nextCursor"))
            cursor = page.get("nextCursor")
            if cursor is None:
                return listed
            if len(listed) > MAX_OFFERS:
                break
        raise ListingInvalid(f"The upstream's list of {member} does not end after {len(listed)} of them.")

    async def subscribe(self, uris: frozenset[str]) -> None:
        """Be told of changes of these resources and of no others, where the upstream tells of any."""
        before, self.subscribed = self.subscribed, uris
        if not self.has(RESOURCE, "subscribe"):
            return
        if self.is_modern:
            self._relisten.set()
            return
        for method, changed in (("resources/subscribe", uris - before), ("resources/unsubscribe", before - uris)):
            for uri in sorted(changed):
                try:
                    await self.request(method, {"uri": uri})
                except (errors.UpstreamError, errors.ResultInvalid) as error:
                    logger.info("The upstream %s refused %s of %s: %s", self._spec.slug, method, uri[:200], error)
                except SessionLost as error:
                    raise errors.TransportError(str(error)) from error

    def _read_headers(self, tools: list[Json]) -> None:
        for tool in tools:
            schema = tool.get("inputSchema") if isinstance(tool, dict) else None
            if isinstance(schema, dict) and isinstance(tool.get("name"), str):
                with contextlib.suppress(ValueError, RecursionError):  # such a tool is refused when it is listed
                    if found := envelope.param_headers(schema):
                        self._headers[tool["name"]] = found

    def _learn(self, page: dict[str, Json], *, whole: bool) -> None:
        # The SDK writes the Mcp-Param headers of a call from the listing that it took itself; ours is raw.
        assert self._client is not None
        with contextlib.suppress(ValidationError):
            listing = types.ListToolsResult.model_validate(page, by_name=False)
            self._client.session._absorb_tool_listing(listing, complete=whole)

    async def _live(self, ready: asyncio.Future[None]) -> None:
        try:
            async with self._transport() as transport:
                client = Client(
                    transport,
                    mode=self._mode(),
                    prior_discover=self._like._client.session.discover_result  # the same upstream's own words
                    if self._like is not None and self._like._client is not None
                    else None,
                    client_info=types.Implementation(name="mcphub", version=self._version),
                    message_handler=self._hear,
                    logging_callback=self._log,
                    cache=None,
                    elicitation_callback=self._elicit if self._can_ask & {FORM, URL} else None,
                    sampling_callback=self._sample if SAMPLING in self._can_ask else None,
                    sampling_capabilities=types.SamplingCapability(tools=types.SamplingToolsCapability())
                    if TOOLS in self._can_ask
                    else None,
                    list_roots_callback=self._roots if ROOTS in self._can_ask else None,
                )
                async with client:
                    self._client = client
                    self.protocol_version, self._capabilities = client.protocol_version, client.server_capabilities
                    info = client.server_info
                    self.server = f"{info.name} {info.version}"[:200] if info is not None else ""
                    is_direct = self.is_modern and self._spec.transport == STREAMABLE_HTTP and self._like is None
                    if is_direct and not egress.proxy_of_settings():  # which only the SDK's client speaks to
                        self.direct = Direct(self._spec, self._secret, client.protocol_version, self._version)
                    if not ready.done():
                        ready.set_result(None)
                    if client.protocol_version in MODERN_PROTOCOL_VERSIONS and self._like is None:
                        await self._listen(client)
                    else:
                        await self._ending.wait()
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            words = _why(error)
            if not ready.done():
                ready.set_exception(errors.ConnectionFailed(f"{words}"))
            else:
                logger.info("The connection to the upstream %s ended: %s", self._spec.slug, words)
            self.why_closed = self.why_closed or words
        finally:
            if not ready.done():
                ready.set_exception(errors.ConnectionFailed(f"{self.why_closed or 'The connection ended.'}"))
            ready.exception()  # nobody may be waiting for it any more
            if self.direct is not None:
                self.direct.close()
            self.lose(self.why_closed or "The connection ended.")

    async def _listen(self, client: Client) -> None:
        """Follow changes where the upstream tells of them (MCP 2026-07-28, Subscriptions)."""
        waiting = asyncio.ensure_future(self._ending.wait())
        try:
            while not waiting.done():
                self._relisten.clear()
                again = asyncio.ensure_future(self._relisten.wait())
                listening = asyncio.ensure_future(self._heard(client))
                try:
                    await asyncio.wait({listening, waiting, again}, return_when=asyncio.FIRST_COMPLETED)
                    if not again.done():  # refused or lost: asked for again after a while, or when it is wanted anew
                        await asyncio.wait(
                            {waiting, again}, timeout=self._spec.connect_seconds, return_when=asyncio.FIRST_COMPLETED
                        )
                finally:
                    again.cancel()
                    listening.cancel()
                    await asyncio.gather(listening, return_exceptions=True)
        finally:
            waiting.cancel()

    async def _heard(self, client: Client) -> None:
        wanted = {kind: self.has(kind, "list_changed") for kind in (TOOL, RESOURCE, PROMPT)}
        uris = sorted(self.subscribed) if self.has(RESOURCE, "subscribe") else []
        if not any(wanted.values()) and not uris:
            await asyncio.Event().wait()
        with contextlib.suppress(Exception):  # the lists are asked for again in their time
            async with client.listen(
                tools_list_changed=wanted[TOOL], resources_list_changed=wanted[RESOURCE],
                prompts_list_changed=wanted[PROMPT], resource_subscriptions=uris,
            ) as events:  # fmt: skip
                async for event in events:
                    if isinstance(event, ResourceUpdated):
                        self._updated(event.uri)
                    else:
                        self._list_changed(*_CHANGED[type(event)])

    def _mode(self) -> str:
        if self._like is None:
            return "auto"
        return self._like.protocol_version if self._like.is_modern else "legacy"

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[AbstractAsyncContextManager[Any]]:
        spec = self._spec
        if spec.transport == STDIO:
            yield _watched(child(spec, self._secret, self.last_words), self.lose)
            return
        made = http.client(spec, self._secret, self.lose, self._lasts_seconds)
        try:
            if spec.transport == SSE:
                yield _watched(
                    sse_client(spec.url, httpx_client_factory=lambda headers=None, timeout=None, auth=None: made),
                    self.lose,
                )
            else:
                yield _watched(
                    streamable_http_client(spec.url, http_client=made, max_sse_event_size=spec.max_response_bytes),
                    self.lose,
                )
        finally:
            await made.aclose()

    async def _hear(self, message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self._updated(str(message.params.uri))
        elif (kinds := _CHANGED.get(type(message))) is not None:
            self._list_changed(*kinds)

    async def _log(self, params: types.LoggingMessageNotificationParams) -> None:
        """Pass a log message to the call that it belongs to; to nobody where that is not certain."""
        if (context := self.calls.who_is_meant()) is not None:
            await context.log(params.level, self._secret.value(params.data), params.logger)

    async def _elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        told = await self._asked("elicitation/create", params)
        return told if isinstance(told, types.ErrorData) else types.ElicitResult.model_validate(told, by_name=False)

    async def _sample(self, context: Any, params: types.CreateMessageRequestParams) -> Any:
        told = await self._asked("sampling/createMessage", params)
        if isinstance(told, types.ErrorData):
            return told
        whole = (
            types.CreateMessageResultWithTools if isinstance(told.get("content"), list) else types.CreateMessageResult
        )
        return whole.model_validate(told, by_name=False)

    async def _roots(self, context: Any) -> types.ListRootsResult | types.ErrorData:
        told = await self._asked("roots/list", None)
        return told if isinstance(told, types.ErrorData) else types.ListRootsResult.model_validate(told, by_name=False)

    async def _asked(self, method: str, params: Any) -> Any:
        """Put a question to the client whose call it belongs to; give its result, or say why there is none."""
        call = self.calls.who_is_meant()
        if call is None:
            return types.ErrorData(code=types.INVALID_REQUEST, message="The hub cannot tell whose call this is about.")
        given = {} if params is None else params.model_dump(by_alias=True, mode="json", exclude_none=True)
        given.pop("_meta", None)
        try:
            return await bridge.ask(method, given, call, may_ask=self._spec.may_ask)
        except errors.HubError as error:
            return types.ErrorData(code=types.INVALID_REQUEST, message=str(error))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                if not call.is_suspended or self.closed.is_set():
                    raise
                task.uncancel()  # of the call, not of the session, which goes on
            # The call itself was given up until its client has answered; it comes again.
            return types.ErrorData(code=types.INVALID_REQUEST, message="The call was ended.")

    def _translated(self, error: MCPError) -> Exception:
        if error.code == http.NOT_SENT:
            return errors.ConnectionFailed(error.message)
        if error.code == http.BROKEN:
            return errors.TransportError(error.message)
        if error.code == http.SESSION_GONE:
            self.lose(error.message)
            return SessionLost(error.message)
        if error.code == types.CONNECTION_CLOSED:
            return errors.TransportError("The connection to the upstream broke within the call.")
        if error.code == types.PARSE_ERROR and error.message.startswith("Failed to parse JSON response"):
            return errors.ResultInvalid(f"The upstream's answer cannot be read: {error.message[:300]}")
        return bridge.upstream_error(error.code, error.message)


@asynccontextmanager
async def _watched(
    inner: AbstractAsyncContextManager[Any], lost: Callable[[str], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """The same transport, telling when the other side has ended it."""
    async with inner as (read, write):
        yield _WatchedStream(read, lost), write


class _WatchedStream:
    """The SDK's read stream; `lost` is called at its end."""

    def __init__(self, inner: Any, lost: Callable[[str], None]) -> None:
        self._inner = inner
        self._lost = lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # the SDK looks for `last_context`

    def __aiter__(self) -> _WatchedStream:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._inner.__anext__()
        except StopAsyncIteration:
            self._lost("The upstream closed the connection.")
            raise

    async def __aenter__(self) -> _WatchedStream:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *why: Any) -> Any:
        return await self._inner.__aexit__(*why)


def _why(error: BaseException) -> str:
    """Say in one sentence why a connection failed; nothing of it is secret."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, errors.HubError):
        return str(error)
    if isinstance(error, httpx2.HTTPStatusError):
        return f"The upstream answered with status {error.response.status_code}."
    if isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED:
        return "The upstream closed the connection before it spoke MCP."
    if isinstance(error, MCPError) and error.code in (http.NOT_SENT, http.BROKEN, http.SESSION_GONE):
        return error.message
    if isinstance(error, MCPError):
        return f"The upstream refused: {error.message[:300]}"
    if isinstance(error, FileNotFoundError | NotADirectoryError | PermissionError):
        return f"The command cannot be started: {error.strerror}."
    if isinstance(error, httpx2.TransportError | OSError):
        return f"The upstream cannot be reached ({type(error).__name__})."
    return f"{type(error).__name__}: {str(error)[:300]}"
