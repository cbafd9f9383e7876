"""A tool's result as the text that a model reads. Pure."""

from __future__ import annotations

from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError
from sessions_app.protocol.json import Json


def text_of(wire: dict[str, Json], invocation_id: str, most_bytes: int) -> str:
    """Return the text of a CallToolResult, cut to `most_bytes` with a note."""
    parts = [_block(block, invocation_id) for block in wire.get("content", ())]
    if "structuredContent" in wire:
        structured = wire["structuredContent"]
        if not any(_is_text_of(part, structured) for part in parts):
            parts.append(json.dumps(structured).decode())
    text = "\n".join(part for part in parts if part)
    if wire.get("isError"):
        text = f"Error: {text or 'the tool failed without saying why.'}"
    return cut(text, most_bytes)


def cut(text: str, most_bytes: int) -> str:
    """Return `text` as valid UTF-8 within the bound; a note states the omission."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= most_bytes:
        return raw.decode()
    note = f"\n[Cut: {most_bytes} of {len(raw)} bytes are shown. Ask for less, or for a part.]"
    return raw[: max(0, most_bytes - len(note))].decode("utf-8", "ignore") + note


def _block(block: dict[str, Json], invocation_id: str) -> str:
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", ""))
    if kind == "resource_link":
        name = block.get("title") or block.get("name") or ""
        return f"[Link: {name} {block.get('uri', '')}]".replace("  ", " ")
    if kind == "resource":
        resource = block.get("resource") or {}
        if isinstance(resource.get("text"), str):
            return f"[{resource.get('uri', 'resource')}]\n{resource['text']}"
        return _binary("Resource", resource.get("mimeType"), resource.get("blob"), invocation_id)
    return _binary(str(kind).capitalize(), block.get("mimeType"), block.get("data"), invocation_id)


def _binary(kind: str, mime_type: Json, data: Json, invocation_id: str) -> str:
    size = len(data) * 3 // 4 if isinstance(data, str) else 0
    what = f"{kind}, {mime_type or 'of unknown type'}, {size} bytes"
    return f"[{what}: not shown here. It stands in the audit, invocation {invocation_id}.]"


def _is_text_of(text: str, value: Json) -> bool:
    if not text.lstrip().startswith(("{", "[", '"')) and isinstance(value, dict | list | str):
        return False
    try:
        return bool(json.loads(text.encode("utf-8", "replace")) == value)
    except ParseError:
        return False
