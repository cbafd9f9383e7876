"""One session with an upstream on the official client. Imports the SDK, so it is imported when first needed.

The SDK's client must be entered and left in one task; that task is here. Calls run in the tasks of their callers.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Callable
from typing import Any, Final

import mcp_types as types
from mcp.client.client import Client
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from sessions_app.protocol import envelope, errors, revisions
from sessions_app.protocol.envelope import LOG_LEVELS
from sessions_app.protocol.tasks import EXTENSION
from tools_catalog import egress
from tools_catalog.backends.base import ToolContext
from tools_catalog.upstream import appeals, bridge, core_tasks, declaring, faults, http, readable
from tools_catalog.upstream.bridge import FORM, ROOTS, SAMPLING, TOOLS, URL, Abilities
from tools_catalog.upstream.calls import Calls, SessionLost
from tools_catalog.upstream.direct import Direct, Elsewhere, repeated_in_headers
from tools_catalog.upstream.hearing import CHANGED, Hearing
from tools_catalog.upstream.listing import (
    AS_TASK,
    CAPABILITIES,
    MAX_ANSWERS,
    MAX_OFFERS,
    MAX_PAGES,
    METHODS,
    PROMPT,
    RESOURCE,
    TEMPLATE,
    TOOL,
    ListingInvalid,
    size_of,
)
from tools_catalog.upstream.scrubbing import Scrubber
from tools_catalog.upstream.spec import STREAMABLE_HTTP, ConnectionSpec
from tools_catalog.upstream.stdio import LastWords
from tools_catalog.upstream.transports import opened

logger = logging.getLogger(__name__)

Json = Any

_RAW: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
"""Results are relayed as they came; the SDK has checked them against the revision's shapes before."""

_OF_TASKS: Final = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})


class _OfTask(types.Request[dict[str, Any], str]):
    """A request about a task of 2026-07-28, whose id `Mcp-Name` repeats over HTTP."""

    name_param = "taskId"


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
        person_done: Callable[[str], None] = lambda elicitation_id: None,
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
        self._headers: dict[str, tuple[envelope.ParamHeader, ...]] = {} if like is None else like._headers
        """Tool -> its arguments that headers repeat."""
        self._task: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self.calls = Calls()
        self._addresses = appeals.Addresses(self.calls, person_done)
        self.closed = asyncio.Event()
        self._hearing = Hearing(
            self.calls, secret, self._addresses, self.closed, may_ask=spec.may_ask, list_changed=list_changed,
            updated=updated,
        )  # fmt: skip
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
        self,
        method: str,
        params: dict[str, Json],
        context: ToolContext | None = None,
        *,
        follows_tasks: bool = False,
    ) -> dict[str, Json]:
        """Send one request, for the call of `context` where there is one; give its result as it came.

        `follows_tasks` lets an upstream that `offers_tasks` answer with one.

        Raises SessionLost where nothing ran, UpstreamError for the upstream's own error, ConnectionFailed,
        TransportError, ResultInvalid.
        """
        self.last_used = asyncio.get_running_loop().time()
        headers = self._headers.get(params["name"], ()) if method == "tools/call" and self._headers else ()
        if context is None:
            return await self._send(method, params, None)
        can_ask = bridge.abilities(context) if self._spec.may_ask else frozenset()
        if follows_tasks:
            can_ask |= {bridge.TASKS}
        if self.direct is not None and not self.closed.is_set():
            try:
                return await self.direct.request(method, params, context, can_ask, headers)
            except Elsewhere:
                self.direct.close()
                self.direct = None
        if self.is_modern:
            params = declaring.saying(params, can_ask)
        if method in _OF_TASKS:
            with self.calls.asking_about(context):
                return await self._send(method, params, None)
        await self._raise_log_level(context.log_level)
        call = context

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            await call.progress(progress, total, None if message is None else self._secret.text(message))

        wants_progress = context.meta is not None and "progressToken" in context.meta
        with self.calls.under_way(context), http.carrying(repeated_in_headers(params.get("arguments"), headers)):
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
        made = _OfTask if method in _OF_TASKS and self.is_modern else types.Request[dict[str, Any], str]
        request = made.model_construct(method=method, params=params)
        try:
            raw: dict[str, Json] = await client.session.send_request(
                request,
                _RAW,
                progress_callback=on_progress,  # type: ignore[type-var]  # an adapter of any type works
            )
            return raw
        except MCPError as error:
            failure = faults.of(error, self.why_closed, self._addresses.remember)
            if isinstance(failure, SessionLost):
                self.lose(str(failure))
            raise failure from error
        except ValidationError as error:
            raise errors.ResultInvalid(
                f"The upstream's answer to {method} breaks the protocol {self.protocol_version}."
            ) from error

    @property
    def offers_tasks(self) -> bool:
        """Whether it may answer calls with tasks, as one with the extension of 2026-07-28 may."""
        declared = self._capabilities.extensions if self._capabilities is not None else None
        return self.is_modern and EXTENSION in (declared or {})

    @property
    def takes_core_tasks(self) -> bool:
        """Whether a call may ask for a task, as those of 2025-11-25 may where the upstream says so."""
        said = self._capabilities.tasks if self._capabilities is not None else None
        calls = said.requests.tools if said is not None and said.requests is not None else None
        if calls is None or calls.call is None or self.protocol_version not in revisions.ALL:
            return False
        return revisions.revision(self.protocol_version).core_tasks

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
        most = self._spec.max_response_bytes
        left = MAX_ANSWERS * most
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            try:
                page = await self.request(method, {} if cursor is None else {"cursor": cursor})
            except errors.UpstreamError as error:
                if kind == TEMPLATE and error.details.get("upstream", {}).get("code") == types.METHOD_NOT_FOUND:
                    return []  # one that has resources need not have templates
                raise
            found = readable.listed(page, member)
            listed += found
            if kind == TOOL:
                if self.offers_tasks:
                    listed = [{**one, "execution": AS_TASK} if isinstance(one, dict) else one for one in listed]
                elif not self.takes_core_tasks:
                    listed = [core_tasks.without_support(one) for one in listed]
                self._read_headers(listed)
            cursor = page.get("nextCursor")
            if cursor is None:
                return listed
            if len(listed) > MAX_OFFERS:
                break
            left -= size_of(found, most)
            if left < 0:
                raise ListingInvalid(f"The upstream's list of {member} has more than {MAX_ANSWERS * most} bytes.")
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

    async def _live(self, ready: asyncio.Future[None]) -> None:
        try:
            async with opened(self._spec, self._secret, self.last_words, self.lose, self._lasts_seconds) as transport:
                client = Client(
                    transport,
                    mode=self._mode(),
                    prior_discover=self._like._client.session.discover_result  # the same upstream's own words
                    if self._like is not None and self._like._client is not None
                    else None,
                    client_info=types.Implementation(name="mcphub", version=self._version),
                    message_handler=self._hearing.hear,
                    logging_callback=self._hearing.log,
                    cache=None,
                    elicitation_callback=self._hearing.elicit if self._can_ask & {FORM, URL} else None,
                    sampling_callback=self._hearing.sample if SAMPLING in self._can_ask else None,
                    sampling_capabilities=types.SamplingCapability(tools=types.SamplingToolsCapability())
                    if TOOLS in self._can_ask
                    else None,
                    list_roots_callback=self._hearing.roots if ROOTS in self._can_ask else None,
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
            words = faults.why(error)
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
                        self._list_changed(*CHANGED[type(event)])

    def _mode(self) -> str:
        if self._like is None:
            return "auto"
        return self._like.protocol_version if self._like.is_modern else "legacy"
