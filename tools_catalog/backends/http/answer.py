"""Processing of a service's answer: the wanted part, in a form for models."""

from __future__ import annotations

import httpx2

from sessions_app.protocol import errors, json
from tools_catalog import echoes
from tools_catalog.backends.http.configuration import HttpConfiguration, Pointer
from tools_catalog.call.base import Json, ToolResult
from tools_catalog.call.content import Resource, binary_block, dump, text_block

_MOST_FAULTS = 2048
_MISSING = object()


async def read(response: httpx2.Response, limit: int) -> tuple[bytes, bool]:
    """Read at most `limit` bytes of a body, decompressed; the flag is whether that is all of it."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > limit:
            return bytes(body[:limit]), False
    return bytes(body), True


def content_of(configuration: HttpConfiguration, body: bytes, kind: str, charset: str, uri: str) -> ToolResult:
    """Return the result of a whole body; `kind` is its media type, `uri` the name of an embedded resource."""
    wants = configuration.answer_as
    if wants == "binary":
        return _resource(body, kind, uri)
    wants_json = wants == "json" or bool(configuration.pick or configuration.fields or configuration.faults)
    if wants_json or (wants == "auto" and (_is_json(kind) or not kind)):
        try:
            value = json.loads(body)
        except (errors.ProtocolError, ValueError) as exc:
            if wants_json:
                raise errors.ResultInvalid("The service's answer is not valid JSON.") from exc
        else:
            if configuration.faults and (faults := optional(value, configuration.faults)):
                text = dump(faults)[:_MOST_FAULTS]
                raise errors.UpstreamError(f"The service answered with errors: {text}", status=200, excerpt=text)
            return data(shaped(configuration, picked(value, configuration.pick)))
    if wants == "auto" and not _is_text(kind):
        if kind.startswith(("image/", "audio/")):
            return ToolResult(content=[binary_block(kind.partition("/")[0], body, kind)])
        if kind or b"\x00" in body:
            return _resource(body, kind, uri)
    try:
        text = body.decode(charset, "replace")
    except LookupError:
        text = body.decode("utf-8", "replace")
    return ToolResult(content=[text_block(text)])


def data(value: Json) -> ToolResult:
    text = value if isinstance(value, str) else dump(value)
    return ToolResult(content=[text_block(text)], structured=value)


def picked(value: Json, pointer: Pointer) -> Json:
    """Return the value at `pointer`; raise ResultInvalid if there is none."""
    found = find(value, pointer)
    if found is _MISSING:
        raise errors.ResultInvalid(f"The service's answer has no '/{'/'.join(pointer)}', which this tool gives back.")
    return found


def optional(value: Json, pointer: Pointer) -> Json:
    """Return the value at `pointer`, or None."""
    found = find(value, pointer)
    return None if found is _MISSING else found


def find(value: Json, pointer: Pointer) -> Json:
    for number, step in enumerate(pointer):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step == "*":
            found = [find(item, pointer[number + 1 :]) for item in value]
            return [item for item in found if item is not _MISSING]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return _MISSING
    return value


def shaped(configuration: HttpConfiguration, value: Json) -> Json:
    """Keep the wanted fields of an object, or of each object of a list."""
    if not configuration.fields:
        return value
    if isinstance(value, list):
        return [shaped(configuration, item) for item in value]
    found = {name: find(value, pointer) for name, pointer in configuration.fields}
    return {name: item for name, item in found.items() if item is not _MISSING}


def scrubbed(body: bytes, secrets: list[str]) -> bytes:
    """Take the tool's own secrets out of an answer that repeats them."""
    return echoes.without_bytes(body, secrets)


def _resource(body: bytes, kind: str, uri: str) -> ToolResult:
    kind = kind or "application/octet-stream"
    note = text_block(f"The service answered {len(body)} bytes of {kind}.")
    return ToolResult(content=[note, Resource(uri, body, kind).wire()])


def _is_json(kind: str) -> bool:
    return kind == "application/json" or kind.endswith("+json")


def _is_text(kind: str) -> bool:
    return (
        kind.startswith("text/")
        or _is_json(kind)
        or kind.endswith("+xml")
        or kind in ("application/xml", "application/javascript", "application/x-ndjson", "application/yaml")
    )
