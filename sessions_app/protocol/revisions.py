"""The revisions of MCP in order, what each allows, and the shapes of tools and results as each knows them.

The only file that compares revisions. Everybody else asks `revision(version)` for a feature by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sessions_app.protocol.json import dumps

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions that open a session with `initialize`, oldest first."""

STATELESS = ("2026-07-28",)
"""Revisions in which every request describes itself, oldest first."""

ALL = HANDSHAKE + STATELESS
NEWEST_HANDSHAKE = HANDSHAKE[-1]
NEWEST = ALL[-1]

ASSUMED = "2025-03-26"
"""What a request without a version header speaks (MCP 2025-06-18, Streamable HTTP, version header)."""

_HANDSHAKE_SET = frozenset(HANDSHAKE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One revision and its features; the fields name what is allowed, the table below says since when."""

    version: str
    stateless: bool
    batching: bool
    progress_message: bool
    audio: bool
    tool_annotations: bool
    completions: bool
    version_header: bool
    tool_title: bool
    structured_content: bool
    output_schema: bool
    resource_link: bool
    elicitation: bool
    tool_icons: bool
    url_elicitation: bool
    url_elicitation_error: bool
    """The error -32042, which one revision only knew."""
    sampling_tools: bool
    core_tasks: bool
    priming_events: bool
    null_error_ids: bool
    """An error without a readable id carries `"id": null` instead of no id."""
    any_structured_content: bool
    result_type: bool
    cache_hints: bool
    resource_not_found_code: int
    tool_fields: frozenset[str]


def is_stateless(version: str | None) -> bool:
    """Whether a version header leads to the ladder of self-describing requests; unknown values do."""
    return bool(version) and version not in _HANDSHAKE_SET


def negotiate(requested: object) -> str:
    """The answer to `initialize`: the version asked for, or the newest one that has a handshake."""
    if isinstance(requested, str) and requested in _HANDSHAKE_SET:
        return requested
    return NEWEST_HANDSHAKE


def revision(version: str) -> Revision:
    """The features of a served version; raises `ValueError` for any other."""
    try:
        return _REVISIONS[version]
    except KeyError:
        raise ValueError(f"The hub does not serve the protocol version {version[:40]!r}.") from None


def tool_for(rev: Revision, definition: Mapping[str, Any]) -> dict[str, Any]:
    """The Tool object as this revision may see it; unknown fields are dropped (MCP, Tools, data types)."""
    tool = {name: value for name, value in definition.items() if name in rev.tool_fields}
    if not rev.any_structured_content and "outputSchema" in tool and not _describes_object(tool):
        del tool["outputSchema"]
    return tool


def result_for(rev: Revision, result: dict[str, Any]) -> dict[str, Any]:
    """The result as this revision may see it. The argument stays as it is; unchanged, it is returned itself.

    What an older revision cannot carry becomes text, so that nothing is lost in silence.
    """
    if rev.result_type:
        return result if "resultType" in result else {"resultType": "complete", **result}
    converted = {name: value for name, value in result.items() if name not in _STATELESS_RESULT_FIELDS}
    content = converted.get("content")
    if isinstance(content, list) and not (rev.audio and rev.resource_link):
        converted["content"] = content = [_block_for(rev, block) for block in content]
    if "structuredContent" in converted:
        structured = converted["structuredContent"]
        if not rev.structured_content or not isinstance(structured, dict):
            del converted["structuredContent"]
            if not content:
                converted["content"] = [_text(dumps(structured).decode())]
    return converted


def _block_for(rev: Revision, block: Any) -> Any:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "audio" and not rev.audio:
        return _text(f"[audio, {block.get('mimeType', 'type unknown')}: this client cannot receive it]", block)
    if kind == "resource_link" and not rev.resource_link:
        label = block.get("title") or block.get("name")
        uri = block.get("uri", "")
        return _text(f"{label}: {uri}" if label else str(uri), block)
    return block


def _text(text: str, block: Mapping[str, Any] | None = None) -> dict[str, Any]:
    if block and "annotations" in block:
        return {"type": "text", "text": text, "annotations": block["annotations"]}
    return {"type": "text", "text": text}


def _describes_object(tool: Mapping[str, Any]) -> bool:
    schema = tool["outputSchema"]
    return isinstance(schema, dict) and schema.get("type") == "object"


_STATELESS_RESULT_FIELDS = frozenset({"resultType", "ttlMs", "cacheScope"})

_TOOL_FIELDS = MappingProxyType(
    {
        "2024-11-05": {"name", "description", "inputSchema"},
        "2025-03-26": {"annotations"},
        "2025-06-18": {"title", "outputSchema", "_meta"},
        "2025-11-25": {"icons"},
    }
)
"""Fields by the revision that brought them. `execution` lived in 2025-11-25 alone."""


def _row(version: str) -> Revision:
    def since(first: str) -> bool:
        return version >= first

    stateless = version in STATELESS
    fields = frozenset(name for first, names in _TOOL_FIELDS.items() if since(first) for name in names)
    return Revision(
        version=version,
        stateless=stateless,
        batching=version == "2025-03-26",
        progress_message=since("2025-03-26"),
        audio=since("2025-03-26"),
        tool_annotations=since("2025-03-26"),
        completions=since("2025-03-26"),
        version_header=since("2025-06-18"),
        tool_title=since("2025-06-18"),
        structured_content=since("2025-06-18"),
        output_schema=since("2025-06-18"),
        resource_link=since("2025-06-18"),
        elicitation=since("2025-06-18"),
        tool_icons=since("2025-11-25"),
        url_elicitation=since("2025-11-25"),
        url_elicitation_error=version == "2025-11-25",
        sampling_tools=since("2025-11-25"),
        core_tasks=version == "2025-11-25",
        priming_events=version == "2025-11-25",
        null_error_ids=not since("2025-11-25"),
        any_structured_content=stateless,
        result_type=stateless,
        cache_hints=stateless,
        resource_not_found_code=-32602 if stateless else -32002,
        tool_fields=fields | {"execution"} if version == "2025-11-25" else fields,
    )


_REVISIONS: Mapping[str, Revision] = MappingProxyType({version: _row(version) for version in ALL})
