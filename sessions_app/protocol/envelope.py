"""The rules of self-describing requests (MCP 2026-07-28, Streamable HTTP), in the order of the specification.

The first rule that a request breaks is the error that its client gets. The order: the body is a request, it describes
itself, its headers agree with it, its version is served, its method exists, its parameters' headers agree. Transports
check size, host, origin and key before; methods check their parameters after.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sessions_app.protocol import jsonrpc, revisions
from sessions_app.protocol.dialect import children
from sessions_app.protocol.errors import (
    HeaderMismatch,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ProtocolError,
    UnsupportedProtocolVersion,
)
from sessions_app.protocol.headers import RoutingHeaders, accepts, accepts_sse, collect, decode_header, encode_header
from sessions_app.protocol.json import Json
from sessions_app.protocol.jsonrpc import Notification, Request

__all__ = [
    "Envelope",
    "ParamHeader",
    "RoutingHeaders",
    "accepts",
    "accepts_sse",
    "check_param_headers",
    "climb",
    "collect",
    "decode_header",
    "describes_itself",
    "encode_header",
    "param_headers",
]

PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Rising severity (RFC 5424)."""

NAMED_BY: Mapping[str, str] = MappingProxyType(
    {
        "tools/call": "name",
        "prompts/get": "name",
        "resources/read": "uri",
        "tasks/get": "taskId",
        "tasks/update": "taskId",
        "tasks/cancel": "taskId",
    }
)
"""The parameter that `Mcp-Name` repeats, by method."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DECIMAL = re.compile(r"-?[0-9]{1,20}(\.0{1,20})?")
_ANNOTATION = "x-mcp-header"
_HEADER_TYPES = frozenset({"string", "integer", "boolean"})


@dataclass(slots=True)
class Envelope:
    """A valid request, and its unverified description of the client."""

    request: Request
    protocol_version: str
    client_name: str | None
    client_version: str | None
    client_info: dict[str, Json] | None
    client_capabilities: dict[str, Json]
    log_level: str | None
    progress_token: str | int | None
    meta: dict[str, Json]


@dataclass(frozen=True, slots=True)
class ParamHeader:
    """One `x-mcp-header` annotation: the header `Mcp-Param-{name}` repeats the argument at `path`."""

    name: str
    path: tuple[str, ...]
    type: str

    @property
    def suffix(self) -> str:
        """The key in `RoutingHeaders.params`."""
        return self.name.lower()


def climb(value: Json, headers: RoutingHeaders | None, methods: Collection[str]) -> Envelope | Notification:
    """Check a decoded body; raise the `ProtocolError` of the first rule that it breaks.

    Without `headers`, as on stdio, no header is compared.
    The error's `request_id` is the id, where it could be read. A notification is returned as it is: the
    protocol defines no header rules for it.
    """
    message = jsonrpc.parse(value)
    if type(message) is not Request:
        return _notification(message)
    try:
        meta, version = _describes_itself(message)
        if headers is not None:
            _headers_agree(message, version, headers)
        if version not in revisions.STATELESS:
            raise UnsupportedProtocolVersion(version, revisions.STATELESS)
        if message.method not in methods:
            raise MethodNotFound.named(message.method, methods)
        return _envelope(message, version, meta)
    except ProtocolError as error:
        error.request_id = message.id
        raise


def describes_itself(value: Json) -> bool:
    """Return whether a body names its stateless revision, correctly or not."""
    params = value.get("params") if isinstance(value, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and PROTOCOL_VERSION in meta


def _notification(message: jsonrpc.Message) -> Notification:
    """Return what is no request; raise InvalidRequest for a response."""
    if isinstance(message, Notification):
        return message
    error = InvalidRequest("Responses are not taken here. The body must be a request or a notification.")
    error.request_id = message.id
    raise error


def _describes_itself(request: Request) -> tuple[dict[str, Json], str]:
    """Check that the request names its version and its client's capabilities; give `_meta` and the version."""
    meta = request.params.get("_meta")
    if not isinstance(meta, dict):
        raise InvalidParams(f"params._meta must be an object with {PROTOCOL_VERSION} and {CLIENT_CAPABILITIES}.")
    version = meta.get(PROTOCOL_VERSION)
    if not isinstance(version, str):
        raise InvalidParams(f"params._meta needs {PROTOCOL_VERSION}, a string.")
    if not isinstance(meta.get(CLIENT_CAPABILITIES), dict):
        raise InvalidParams(f"params._meta needs {CLIENT_CAPABILITIES}, an object.")
    return meta, version


def _headers_agree(request: Request, version: str, headers: RoutingHeaders) -> None:
    """Check that the headers repeat the content of the body."""
    for name in headers.duplicates:
        if name in _ROUTING:
            raise HeaderMismatch(f"The header {_ROUTING[name]} came more than once. Send it once.")
    if headers.protocol_version != version:
        raise _mismatch("MCP-Protocol-Version", headers.protocol_version, f"params._meta[{PROTOCOL_VERSION}]", version)
    if headers.method != request.method:
        raise _mismatch("Mcp-Method", headers.method, "method", request.method)
    parameter = NAMED_BY.get(request.method)
    if parameter is not None:
        _name_agrees(request.params.get(parameter), parameter, headers.name)


def _name_agrees(expected: Json, parameter: str, header: str | None) -> None:
    if header is None:
        # A request that names nothing has nothing to repeat; its method refuses its parameters.
        if isinstance(expected, str):
            raise _mismatch("Mcp-Name", None, f"params.{parameter}", expected)
        return
    if header != expected or header.startswith("=?") or not header.isascii():
        try:
            named = decode_header(header)
        except ValueError as error:
            raise _badly_encoded("Mcp-Name") from error
        if named != expected:
            raise _mismatch("Mcp-Name", named, f"params.{parameter}", expected)


def _envelope(request: Request, version: str, meta: dict[str, Json]) -> Envelope:
    info = meta.get(CLIENT_INFO)
    name = client_version = None
    if info is not None:
        if not isinstance(info, dict):
            raise InvalidParams(f"{CLIENT_INFO} must be an object.")
        name, client_version = info.get("name"), info.get("version")
    level = meta.get(LOG_LEVEL)
    if level is not None and level not in LOG_LEVELS:
        raise InvalidParams(f"{LOG_LEVEL} must be one of {', '.join(LOG_LEVELS)}.")
    token = meta.get("progressToken")
    if not (token is None or isinstance(token, str) or _is_integer(token)):
        raise InvalidParams("progressToken must be a string or an integer.")
    return Envelope(
        request,
        version,
        name if isinstance(name, str) else None,
        client_version if isinstance(client_version, str) else None,
        info,
        meta[CLIENT_CAPABILITIES],
        level,
        token,
        meta,
    )


def param_headers(schema: dict[str, Json]) -> tuple[ParamHeader, ...]:
    """The `x-mcp-header` annotations of an input schema, which `schemas.check` has passed.

    Raises `ValueError` with the reason for a bad one: clients drop a tool for a single bad annotation
    (MCP 2026-07-28, SEP-2243).
    """
    found: dict[str, ParamHeader] = {}
    pending: list[tuple[Json, tuple[str, ...], bool]] = [(schema, (), True)]
    while pending:
        node, path, reachable = pending.pop()
        if not isinstance(node, dict):
            continue
        if _ANNOTATION in node:
            header = _annotation(node, path, reachable)
            if header.suffix in found:
                raise ValueError(f"Two properties are annotated {_ANNOTATION}: {header.name}.")
            found[header.suffix] = header
        for keyword, token, child in children(node):
            named = keyword == "properties"
            pending.append((child, (*path, str(token)) if named else path, reachable and named))
    return tuple(sorted(found.values(), key=lambda header: header.path))


def check_param_headers(
    annotated: tuple[ParamHeader, ...], arguments: dict[str, Json], headers: RoutingHeaders
) -> None:
    """Check that each annotated argument and its `Mcp-Param-*` header agree, or both are absent."""
    for header in annotated:
        label = f"Mcp-Param-{header.name}"
        if label.lower() in headers.duplicates:
            raise HeaderMismatch(f"The header {label} came more than once. Send it once.")
        value = _argument(arguments, header.path)
        text = headers.params.get(header.suffix)
        if value is None and text is None:
            continue
        if text is not None:
            try:
                text = decode_header(text)
            except ValueError as error:
                raise _badly_encoded(label) from error
        if value is None or text is None or not _says(text, value):
            raise _mismatch(label, text, f"params.arguments.{'.'.join(header.path)}", value)


def _annotation(node: dict[str, Json], path: tuple[str, ...], reachable: bool) -> ParamHeader:
    name = node[_ANNOTATION]
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise ValueError(f"{_ANNOTATION} must be a header token, not {_shown(name)}.")
    if not reachable or not path:
        raise ValueError(f"{_ANNOTATION}: {name} is on a schema that `properties` alone do not lead to.")
    kind = node.get("type")
    if not isinstance(kind, str) or kind not in _HEADER_TYPES:
        raise ValueError(f"{_ANNOTATION}: {name} needs the type string, integer or boolean.")
    return ParamHeader(name, path, kind)


def _argument(arguments: Json, path: tuple[str, ...]) -> Json:
    for name in path:
        if not isinstance(arguments, dict):
            return None
        arguments = arguments.get(name)
    return arguments


def _says(text: str, value: Json) -> bool:
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, str):
        return text == value
    if isinstance(value, int | float):
        return _DECIMAL.fullmatch(text) is not None and int(text.partition(".")[0]) == value
    return False


def _mismatch(header: str, found: str | None, member: str, expected: Json) -> HeaderMismatch:
    if found is None:
        return HeaderMismatch(f"The header {header} is missing. Send it with what {member} says: {_shown(expected)}.")
    if expected is None:
        return HeaderMismatch(f"The header {header} is {_shown(found)}, but {member} is absent. Send both or neither.")
    return HeaderMismatch(
        f"The header {header} is {_shown(found)}, but {member} is {_shown(expected)}. They must agree."
    )


def _badly_encoded(header: str) -> HeaderMismatch:
    return HeaderMismatch(f"The header {header} is not valid. Send plain ASCII, or =?base64?…?= of the text's UTF-8.")


def _is_integer(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:120] + "…"


_ROUTING = {"mcp-protocol-version": "MCP-Protocol-Version", "mcp-method": "Mcp-Method", "mcp-name": "Mcp-Name"}
