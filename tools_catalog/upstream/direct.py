"""Requests of MCP 2026-07-28 over HTTP, without the SDK: each describes itself, so all that is left is a POST.

The official client connects, lists and listens; what it costs a call is more than the call. Here a request is bytes,
its answer is decoded once, and what the client of the call can be asked is said in the request itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, TypeGuard

import httpx2

from sessions_app.protocol import envelope, errors, json, sse
from tools_catalog import egress
from tools_catalog.backends.base import Json, ToolContext
from tools_catalog.egress_rules import EgressPolicy
from tools_catalog.upstream import appeals, bridge
from tools_catalog.upstream.bridge import Abilities
from tools_catalog.upstream.limits import Flood
from tools_catalog.upstream.results import check
from tools_catalog.upstream.scrubbing import Scrubber
from tools_catalog.upstream.spec import ConnectionSpec
from tools_catalog.upstream.wire import Answer, Broken, NotSent, Origin

_DEEPEST = 250
_VERSION_GONE = -32022


class Elsewhere(Exception):
    """The upstream does not answer at this address; the official client knows how to go on. Nothing ran."""


class Direct:
    """The way to one upstream of a revision without sessions. Shared by all of its calls."""

    def __init__(
        self, spec: ConnectionSpec, secret: Scrubber, protocol_version: str, version: str,
        policy: EgressPolicy | None = None,
    ) -> None:  # fmt: skip
        url = httpx2.URL(spec.url)
        policy = policy or EgressPolicy.from_settings()
        policy.check_url(spec.url)
        self._spec = spec
        self._secret = secret
        self._host = url.host
        is_tls = url.scheme == "https"
        port = url.port or (443 if is_tls else 80)
        self._origin = Origin(
            policy, host=url.raw_host.decode("ascii"), port=port, is_tls=is_tls, seconds=spec.connect_seconds
        )
        self._ids = itertools.count(1)
        self._head = (
            b"POST %b HTTP/1.1\r\nhost: %b\r\nuser-agent: %b\r\naccept: application/json, text/event-stream\r\n"
            b"accept-encoding: identity\r\ncontent-type: application/json\r\nmcp-protocol-version: %b\r\n"
            % (url.raw_path, url.netloc, egress.USER_AGENT.encode(), protocol_version.encode())
        )
        self._meta = {
            envelope.PROTOCOL_VERSION: protocol_version,
            envelope.CLIENT_INFO: {"name": "mcphub", "version": version},
        }

    async def request(
        self,
        method: str,
        params: Mapping[str, Json],
        context: ToolContext | None,
        can_ask: Abilities,
        repeated: tuple[envelope.ParamHeader, ...] = (),
    ) -> dict[str, Json]:
        """Send one request and give its result as it came. `repeated` are the arguments that headers repeat.

        Raises ConnectionFailed, TransportError, UpstreamError, ResultInvalid, Elsewhere. Cancelled, it takes the
        request back.
        """
        id_ = next(self._ids)
        meta = {**params.get("_meta", {}), **self._meta, envelope.CLIENT_CAPABILITIES: bridge.declared(can_ask)}
        if context is not None and context.meta is not None and "progressToken" in context.meta:
            meta["progressToken"] = id_
        message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": {**params, "_meta": meta}}
        try:
            answer = await self._origin.send(self._written(method, params, json.dumps(message), repeated))
        except NotSent as error:
            raise errors.ConnectionFailed(
                f"{self._spec.slug} cannot be reached: {error} Nothing was sent; try again.",
                connection=self._spec.slug,
            ) from error
        except Broken as error:
            raise errors.TransportError(str(error)) from error
        try:
            result = await self._read(answer, id_, context)
        except Broken as error:
            answer.close()
            raise errors.TransportError(str(error)) from error
        except BaseException:
            answer.close()
            raise
        answer.release()
        return result

    def close(self) -> None:
        self._origin.close()

    def _written(
        self, method: str, params: Mapping[str, Json], body: bytes, repeated: tuple[envelope.ParamHeader, ...]
    ) -> bytes:
        lines = [f"mcp-method: {method}\r\n"]
        if (named := envelope.NAMED_BY.get(method)) is not None:
            lines.append(f"mcp-name: {envelope.encode_header(params[named])}\r\n")
        for name, value in repeated_in_headers(params.get("arguments"), repeated).items():
            lines.append(f"{name}: {value}\r\n")
        for name, value in self._spec.rendered_headers(self._host, self._secret).items():
            lines.append(f"{name}: {value}\r\n")
        return b"%b%bcontent-length: %d\r\n\r\n%b" % (self._head, "".join(lines).encode("latin-1"), len(body), body)

    async def _read(self, answer: Answer, id_: int, context: ToolContext | None) -> dict[str, Json]:
        status, kind = answer.status, answer.headers.get(b"content-type", b"").lower()
        if status in (301, 302, 303, 307, 308):
            raise Elsewhere
        if status in (401, 403):
            raise errors.ConnectionFailed(f"The upstream refuses the hub's credentials (status {status}).")
        if answer.headers.get(b"content-encoding", b"identity") != b"identity":
            raise errors.TransportError("The upstream compresses its answer, which it was asked not to.")
        if kind.startswith(b"text/event-stream") and status < 300:
            return await self._listen(answer, id_, context)
        if not kind.startswith(b"application/json") or status in (202, 204):
            raise errors.UpstreamError(f"The upstream answered with status {status} and no MCP.")
        message = _decoded(await self._whole(answer))
        if status >= 400 and "error" not in message:
            raise errors.UpstreamError(f"The upstream answered with status {status}.")
        if "error" not in message and message.get("id") != id_:
            raise errors.ResultInvalid("The upstream answered another request than it was asked.")
        return _result(message)

    async def _whole(self, answer: Answer) -> bytes:
        chunks, size = [], 0
        while chunk := await answer.chunk():
            size += len(chunk)
            if size > self._spec.max_response_bytes:
                raise errors.ResultInvalid("The upstream's answer is too large.")
            chunks.append(chunk)
        return b"".join(chunks)

    async def _listen(self, answer: Answer, id_: int, context: ToolContext | None) -> dict[str, Json]:
        decoder = sse.Decoder(max_event_bytes=self._spec.max_response_bytes)
        flood = Flood(self._spec.max_notifications)
        while chunk := await answer.chunk():
            try:
                events = decoder.feed(chunk)
            except sse.EventTooLarge as error:
                raise errors.ResultInvalid("The upstream's answer is too large.") from error
            for event in events:
                message = _decoded(event.data.encode("utf-8", "surrogatepass"))
                if "method" not in message:
                    if message.get("id") == id_:
                        return _result(message)
                    continue
                if flood.is_over():
                    raise errors.TransportError("The upstream sends too many notifications.")
                await flood.pause()
                if context is not None:
                    await _tell(context, self._secret.value(message), id_)
        raise errors.TransportError("The upstream ended its answer before the result.")


def repeated_in_headers(arguments: Json, repeated: tuple[envelope.ParamHeader, ...]) -> dict[str, str]:
    """Give the headers that repeat arguments of a call (MCP 2026-07-28, Tools §x-mcp-header)."""
    texts = ((header.suffix, _text_at(arguments, header.path)) for header in repeated)
    return {f"mcp-param-{suffix}": envelope.encode_header(text) for suffix, text in texts if text is not None}


async def _tell(context: ToolContext, message: dict[str, Json], id_: int) -> None:
    """Pass a notification on to the client of the call; one that cannot be read is left out."""
    params = message.get("params")
    if not isinstance(params, dict):
        return
    if message["method"] == "notifications/progress" and params.get("progressToken") == id_:
        progress, total, words = params.get("progress"), params.get("total"), params.get("message")
        if _is_number(progress) and (total is None or _is_number(total)):
            await context.progress(progress, total, words if isinstance(words, str) else None)
    elif message["method"] == "notifications/message":
        level, logger = params.get("level"), params.get("logger")
        if level in envelope.LOG_LEVELS and "data" in params:
            await context.log(level, params["data"], logger if isinstance(logger, str) else None)


def _decoded(raw: bytes) -> dict[str, Json]:
    try:
        message = json.loads(raw, max_depth=_DEEPEST)
    except errors.ParseError as error:
        raise errors.ResultInvalid(f"The upstream's answer cannot be read: {error}") from error
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise errors.ResultInvalid("The upstream's answer is no JSON-RPC.")
    return message


def _result(message: dict[str, Json]) -> dict[str, Json]:
    error = message.get("error")
    if error is not None:
        code, words = (error.get("code"), error.get("message")) if isinstance(error, dict) else (None, None)
        if not isinstance(code, int) or not isinstance(words, str):
            raise errors.ResultInvalid("The upstream's error is none of JSON-RPC.")
        if code == _VERSION_GONE:
            raise errors.ConnectionFailed("The upstream no longer speaks the revision that it spoke before.")
        raise appeals.upstream_error(code, words, error.get("data"))
    result = message.get("result")
    if not isinstance(result, dict):
        raise errors.ResultInvalid("The upstream's answer has no result.")
    check(result)
    return result


def _text_at(value: Any, path: tuple[str, ...]) -> str | None:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else None


def _is_number(value: Json) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
