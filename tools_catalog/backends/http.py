"""Any HTTP API as a tool: one request per call, its answer as content.

The configuration is data that an operator or an importer wrote; `HttpConfiguration.parse` refuses what is
not safe to send. Every request leaves through the egress guard, and an answer is read only up to its limit.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

import httpx2

from sessions_app.protocol import errors, json
from tools_catalog import egress
from tools_catalog.backends.base import Json, ToolContext, ToolResult
from tools_catalog.backends.content import binary_block, dump, text_block
from tools_catalog.backends.http_template import (
    BodyTemplate,
    Secrets,
    Template,
    UrlTemplate,
    Values,
    header_text,
    parse_leaves,
)

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
DEFAULT_TIMEOUT_SECONDS = 30.0
MAX_TIMEOUT_SECONDS = 600.0
DEFAULT_MAX_RESPONSE_BYTES = 1024 * 1024
HIGHEST_MAX_RESPONSE_BYTES = 64 * 1024 * 1024
EXCERPT_BYTES = 2048
"""How much of an error's body a model is shown."""

# fmt: off
_MEMBERS = frozenset({
    "method", "url", "query", "headers", "body", "body_encoding", "response", "timeout_seconds",
    "max_response_bytes", "success",
})
_OWN_HEADERS = frozenset({
    "host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect",
    "accept-encoding", "proxy-authorization", "proxy-connection", "keep-alive",
})
# fmt: on
"""Headers that belong to the connection, not to a tool."""
_HEADER_NAME = re.compile(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_SHORTEST_SCRUBBED = 6
"""A shorter secret occurs in answers by accident."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfiguration:
    """A checked configuration, ready to be rendered. `parse` describes its members."""

    method: str
    url: UrlTemplate
    headers: tuple[tuple[str, Template], ...]
    body: BodyTemplate
    pick: tuple[str, ...]
    answer_as: str
    timeout_seconds: float
    max_response_bytes: int
    success: frozenset[int]
    used_arguments: frozenset[str]
    secret_names: frozenset[str]

    @classmethod
    def parse(cls, raw: Json) -> HttpConfiguration:
        """Read a configuration; raises ValueError with the path of the member and the reason.

        `method`; `url` with placeholders in path segments and query values; `query` {name: template};
        `headers` {name: template}; `body` "none", "arguments" (all that are used nowhere else) or a JSON
        template whose leaf "{arg}" keeps the argument's type; `body_encoding` json or form; `response`
        {"pick": JSON pointer, "as": auto, json or text}; `timeout_seconds`; `max_response_bytes`; `success`
        a list of statuses or classes such as "2xx". `{secret:NAME}` stands in headers, query and body.
        """
        if not isinstance(raw, dict):
            raise ValueError("configuration: must be an object.")
        unknown = raw.keys() - _MEMBERS
        if unknown:
            raise ValueError(f"{sorted(unknown)[0]}: unknown member. Known: {', '.join(sorted(_MEMBERS))}.")
        method = _text(raw.get("method", "GET"), "method").upper()
        if method not in METHODS:
            raise ValueError(f"method: must be one of {', '.join(METHODS)}.")
        url = UrlTemplate.parse(_text(raw.get("url"), "url"), _texts(raw.get("query", {}), "query"))
        headers = tuple(
            (name, Template.parse(value, f"headers.{name}"))
            for name, value in _headers(_texts(raw.get("headers", {}), "headers")).items()
        )
        body = _body(raw, method)
        response = raw.get("response", {})
        if not isinstance(response, dict) or not response.keys() <= {"pick", "as"}:
            raise ValueError("response: must be an object with pick and as.")
        answer_as = response.get("as", "auto")
        if answer_as not in ("auto", "json", "text"):
            raise ValueError("response.as: must be auto, json or text.")
        pick = _pointer(response.get("pick", ""))
        if pick and answer_as == "text":
            raise ValueError("response.pick: needs JSON, but response.as is text.")
        templates = [*url.templates, *(template for _, template in headers), *body.templates()]
        return cls(
            method=method,
            url=url,
            headers=headers,
            body=body,
            pick=pick,
            answer_as=answer_as,
            timeout_seconds=_number(
                raw.get("timeout_seconds", DEFAULT_TIMEOUT_SECONDS), "timeout_seconds", MAX_TIMEOUT_SECONDS
            ),
            max_response_bytes=int(
                _number(
                    raw.get("max_response_bytes", DEFAULT_MAX_RESPONSE_BYTES),
                    "max_response_bytes",
                    HIGHEST_MAX_RESPONSE_BYTES,
                )
            ),
            success=_statuses(raw.get("success", ["2xx"])),
            used_arguments=frozenset(name for template in templates for name in template.arguments),
            secret_names=frozenset(name for template in templates for name in template.secrets),
        )


class HttpBackend:
    """Calls one HTTP API. `secret` is asked at every call for values, with the host that they go to.

    Without `client` the running loop's shared one is used. A configuration that was not parsed yet is
    parsed, which may raise ValueError.
    """

    def __init__(
        self,
        configuration: HttpConfiguration | dict[str, Json],
        *,
        secret: Secrets,
        client: httpx2.AsyncClient | None = None,
    ) -> None:
        if not isinstance(configuration, HttpConfiguration):
            configuration = HttpConfiguration.parse(configuration)
        self._configuration = configuration
        self._secret = secret
        self._client = client

    async def call(self, arguments: dict[str, Json], context: ToolContext) -> ToolResult:
        """Send the request and give its answer.

        Raises `ArgumentsInvalid`, `ToolTimeout`, `ConnectionFailed` (nothing was sent), `TransportError`
        (something may have been), `UpstreamError` for a status outside `success`, `ResultInvalid` for an
        answer that is too large or not what the configuration promises.
        """
        configuration = self._configuration
        values = Values(arguments, self._secret, configuration.url.host)
        url, headers, content = _request(configuration, values)
        seconds = max(0.0, min(configuration.timeout_seconds, context.remaining_seconds()))
        timeout = httpx2.Timeout(seconds, connect=min(egress.CONNECT_SECONDS, seconds))
        try:
            async with asyncio.timeout(seconds):
                client = self._client or egress.shared_client()
                async with egress.stream(
                    client, configuration.method, url, headers=headers, content=content, timeout=timeout
                ) as response:
                    return await _answer(configuration, response, values.used_secrets)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as exc:
            raise errors.ConnectionFailed from exc
        except (TimeoutError, httpx2.TimeoutException) as exc:
            raise errors.ToolTimeout(
                f"The service did not answer within {seconds:g} seconds.", timeout_seconds=seconds
            ) from exc
        except httpx2.HTTPError as exc:
            raise errors.TransportError from exc

    async def aclose(self) -> None:
        """Nothing to release: the client is shared."""


def _request(configuration: HttpConfiguration, values: Values) -> tuple[httpx2.URL, dict[str, str], bytes | None]:
    url = configuration.url.render(values)
    headers = {"Accept": "application/json, text/*;q=0.9, */*;q=0.5"}
    body = configuration.body.render(values, configuration.used_arguments)
    if body is not None:
        headers["Content-Type"] = body[0]
    names = {name.lower(): name for name in headers}
    for name, template in configuration.headers:
        text = header_text(name, template, values)
        if text is not None:
            headers.pop(names.get(name.lower(), ""), None)
            headers[name] = text
    return url, headers, None if body is None else body[1]


async def _answer(configuration: HttpConfiguration, response: httpx2.Response, secrets: list[str]) -> ToolResult:
    status = response.status_code
    if status not in configuration.success:
        excerpt, _ = await read(response, EXCERPT_BYTES)
        text = _scrubbed(excerpt, secrets).decode("utf-8", "replace").strip()
        raise errors.UpstreamError(
            f"The service answered with status {status}{f': {text}' if text else '.'}",
            status=status,
            excerpt=text,
        )
    limit = configuration.max_response_bytes
    body, is_whole = await read(response, limit)
    if not is_whole:
        raise errors.ResultInvalid(
            f"The service's answer is larger than the {limit} bytes that this tool accepts. Ask for less.",
            max_response_bytes=limit,
        )
    body = _scrubbed(body, secrets)
    if not body:
        return ToolResult(content=[text_block(f"The service answered with status {status} and no content.")])
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return _content(configuration, body, kind, response.charset_encoding or "utf-8")


async def read(response: httpx2.Response, limit: int) -> tuple[bytes, bool]:
    """Read at most `limit` bytes of a body, decompressed; the flag says whether that is all of it."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > limit:
            return bytes(body[:limit]), False
    return bytes(body), True


def _content(configuration: HttpConfiguration, body: bytes, kind: str, charset: str) -> ToolResult:
    wants_json = configuration.answer_as == "json" or bool(configuration.pick)
    if wants_json or (configuration.answer_as == "auto" and (_is_json(kind) or not kind)):
        try:
            value = json.loads(body)
        except (errors.ProtocolError, ValueError) as exc:
            if wants_json:
                raise errors.ResultInvalid("The service's answer is not valid JSON.") from exc
        else:
            value = _picked(value, configuration.pick)
            text = value if isinstance(value, str) else dump(value)
            return ToolResult(content=[text_block(text)], structured=value)
    if configuration.answer_as == "auto" and not _is_text(kind):
        if kind.startswith(("image/", "audio/")):
            return ToolResult(content=[binary_block(kind.partition("/")[0], body, kind)])
        if kind or b"\x00" in body:
            return ToolResult(
                content=[text_block(f"The service answered {len(body)} bytes of {kind or 'unknown content'}.")]
            )
    try:
        text = body.decode(charset, "replace")
    except LookupError:
        text = body.decode("utf-8", "replace")
    return ToolResult(content=[text_block(text)])


def _is_json(kind: str) -> bool:
    return kind == "application/json" or kind.endswith("+json")


def _is_text(kind: str) -> bool:
    return (
        kind.startswith("text/")
        or _is_json(kind)
        or kind.endswith("+xml")
        or kind in ("application/xml", "application/javascript", "application/x-ndjson", "application/yaml")
    )


def _picked(value: Json, pointer: tuple[str, ...]) -> Json:
    for step in pointer:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            raise errors.ResultInvalid(
                f"The service's answer has no '/{'/'.join(pointer)}', which this tool gives back."
            )
    return value


def _scrubbed(body: bytes, secrets: list[str]) -> bytes:
    """Take the tool's own secrets out of an answer that repeats them."""
    for secret in secrets:
        if len(secret) >= _SHORTEST_SCRUBBED:
            body = body.replace(secret.encode("utf-8", "replace"), b"[secret]")
    return body


def _text(value: Json, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{where}: must be text.")
    return value


def _texts(value: Json, where: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ValueError(f"{where}: must be an object whose values are text.")
    return value


def _headers(headers: dict[str, str]) -> dict[str, str]:
    seen: set[str] = set()
    for name, value in headers.items():
        where = f"headers.{name}"
        if not _HEADER_NAME.match(name):
            raise ValueError(f"{where}: not a header name.")
        if name.lower() in _OWN_HEADERS:
            raise ValueError(f"{where}: this header belongs to the connection and cannot be set.")
        if name.lower() in seen:
            raise ValueError(f"{where}: given twice.")
        if re.search(r"[^\x20-\x7e\t]", value):
            raise ValueError(f"{where}: may hold only visible ASCII characters.")
        seen.add(name.lower())
    return headers


def _body(raw: dict[str, Json], method: str) -> BodyTemplate:
    body, encoding = raw.get("body", "none"), raw.get("body_encoding", "json")
    if encoding not in ("json", "form"):
        raise ValueError("body_encoding: must be json or form.")
    if body in ("none", None):
        return BodyTemplate(kind="none", encoding=encoding)
    if method in ("GET", "HEAD"):
        raise ValueError(f"body: a {method} request has none.")
    if body == "arguments":
        return BodyTemplate(kind="arguments", encoding=encoding)
    if not isinstance(body, dict) and (encoding == "form" or not isinstance(body, list)):
        raise ValueError('body: must be "none", "arguments" or a JSON template (for a form, an object).')
    return BodyTemplate(kind="template", encoding=encoding, leaves=parse_leaves(body, "body"))


def _pointer(value: Json) -> tuple[str, ...]:
    if not isinstance(value, str) or (value and not value.startswith("/")):
        raise ValueError("response.pick: must be a JSON pointer such as /data/items.")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in value.split("/")[1:])


def _number(value: Json, where: str, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
        raise ValueError(f"{where}: must be a number above 0 and at most {most:g}.")
    return value


def _statuses(value: Json) -> frozenset[int]:
    if not isinstance(value, list) or not value:
        raise ValueError("success: must be a list of statuses.")
    found: set[int] = set()
    for item in value:
        if isinstance(item, int) and not isinstance(item, bool) and 200 <= item < 600:
            found.add(item)
        elif isinstance(item, str) and re.fullmatch(r"[2-5]xx", item):
            found.update(range(int(item[0]) * 100, int(item[0]) * 100 + 100))
        else:
            raise ValueError(f"success: {item!r} is neither a status nor a class such as '2xx'.")
    return frozenset(found)
