"""The revisions of MCP in order, their features, and the members of their objects.

The only file that compares revisions. Other modules ask `revision(version)` for a feature by name; `shapes` converts
outgoing messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions that open a session with `initialize`, oldest first."""

STATELESS = ("2026-07-28",)
"""Revisions in which every request describes itself, oldest first."""

ALL = HANDSHAKE + STATELESS
NEWEST_HANDSHAKE = HANDSHAKE[-1]
NEWEST = ALL[-1]

ASSUMED = "2025-03-26"
"""The revision of a request without a version header (MCP 2025-06-18, Streamable HTTP, version header)."""

_HANDSHAKE_SET = frozenset(HANDSHAKE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One revision and its features; the fields name features, the table below their first revision."""

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
    members: Mapping[str, frozenset[str]]
    """The allowed members of an object, by its kind: the names of `_MEMBERS`."""


def is_stateless(version: str | None) -> bool:
    """Return whether a version header leads to the ladder of self-describing requests; unknown values do."""
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


_NAMED = {"2025-06-18": "title _meta", "2025-11-25": "icons"}
"""Later additions to everything with a name: a title for people, metadata, icons."""

_MEMBERS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "tool": {
            "2024-11-05": "name description inputSchema",
            "2025-03-26": "annotations",
            "2025-06-18": "title outputSchema _meta",
            "2025-11-25": "icons",
        },
        "resource": {"2024-11-05": "uri name description mimeType size annotations", **_NAMED},
        "template": {"2024-11-05": "uriTemplate name description mimeType annotations", **_NAMED},
        "prompt": {"2024-11-05": "name description arguments", **_NAMED},
        "prompt argument": {"2024-11-05": "name description required", "2025-06-18": "title"},
        "contents": {"2024-11-05": "uri mimeType text blob", "2025-06-18": "_meta"},
        "annotations": {"2024-11-05": "audience priority", "2025-06-18": "lastModified"},
        "text block": {"2024-11-05": "type text annotations", "2025-06-18": "_meta"},
        "image block": {"2024-11-05": "type data mimeType annotations", "2025-06-18": "_meta"},
        "audio block": {"2025-03-26": "type data mimeType annotations", "2025-06-18": "_meta"},
        "resource block": {"2024-11-05": "type resource annotations", "2025-06-18": "_meta"},
        "resource_link block": {
            "2025-06-18": "type uri name description mimeType size annotations title _meta",
            "2025-11-25": "icons",
        },
        "tool_use block": {"2025-11-25": "type id name input _meta"},
        "tool_result block": {"2025-11-25": "type toolUseId content structuredContent isError _meta"},
        "implementation": {
            "2024-11-05": "name version",
            "2025-06-18": "title",
            "2025-11-25": "description websiteUrl icons",
        },
        "capabilities": {
            "2024-11-05": "experimental logging prompts resources tools",
            "2025-03-26": "completions",
            "2026-07-28": "extensions",
        },
        "progress": {"2024-11-05": "progressToken progress total _meta", "2025-03-26": "message"},
        "sampling": {
            "2024-11-05": "messages modelPreferences systemPrompt includeContext temperature maxTokens stopSequences "
            "metadata _meta",
            "2025-11-25": "tools toolChoice",
        },
        "elicitation": {"2025-06-18": "message requestedSchema _meta", "2025-11-25": "mode url"},
        "asked text": {"2025-06-18": "type title description minLength maxLength format", "2025-11-25": "default"},
        "asked number": {"2025-06-18": "type title description minimum maximum", "2025-11-25": "default"},
        "asked boolean": {"2025-06-18": "type title description default"},
        "asked choice": {"2025-06-18": "type title description enum enumNames", "2025-11-25": "oneOf default"},
        "asked choices": {"2025-11-25": "type title description minItems maxItems items default"},
    }
)
"""Members of each kind of object by the revision that brought them. A block that a revision does not know has none."""

_ONE_REVISION: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "2025-11-25": {
            "tool": "execution",
            "capabilities": "tasks",
            "sampling": "task",
            "elicitation": "elicitationId task",
        }
    }
)
"""Members that went as they came."""

KNOWN: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        kind: frozenset(name for names in table.values() for name in names.split())
        | frozenset(name for passing in _ONE_REVISION.values() for name in passing.get(kind, "").split())
        for kind, table in _MEMBERS.items()
    }
)
"""Members that any revision has, by the kind of object: all others belong to whoever sends them."""


def _row(version: str) -> Revision:
    def since(first: str) -> bool:
        return version >= first

    stateless = version in STATELESS
    passing = _ONE_REVISION.get(version, {})
    members = {
        kind: frozenset(name for first, names in table.items() if since(first) for name in names.split())
        | frozenset(passing.get(kind, "").split())
        for kind, table in _MEMBERS.items()
    }
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
        members=MappingProxyType(members),
    )


_REVISIONS: Mapping[str, Revision] = MappingProxyType({version: _row(version) for version in ALL})
