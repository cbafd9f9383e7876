"""Resources and prompts in bundles. An entry of a Python function needs its reference only."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tools_catalog.backends import offered
from tools_catalog.bundles import entries
from tools_catalog.bundles.entries import Kind, Members, Report, check_members, load_each
from tools_catalog.call.base import Json
from tools_catalog.models import McpPrompt, McpResource
from tools_catalog.models.loadable import LoadableModel

KINDS = ("resources", "prompts")

_SHARED: Members = {
    "title": str,
    "description": str,
    "backend": str,
    "function": str,
    "timeout_seconds": (int, float),
    "completions": dict,
    "icons": list,
    "_meta": dict,
}
_OPERATION: Members = {"enabled": bool, "groups": list}
"""The operator's own, once the row exists."""


_RESOURCE = Kind(
    name="resource",
    model=McpResource,
    key="uri",
    operation=_OPERATION,
    came_by=LoadableModel.came_by,
    definition={"uri": str, "name": str, "mimeType": str, "annotations": dict, "content": str, **_SHARED},
    wire={"mimeType": "mime_type", "_meta": "meta"},
)
_PROMPT = Kind(
    name="prompt",
    model=McpPrompt,
    key="name",
    operation=_OPERATION,
    came_by=LoadableModel.came_by,
    definition={"name": str, "arguments": list, "messages": list, **_SHARED},
    wire={"_meta": "meta"},
)
_ALL: tuple[tuple[Kind, Mapping[str, offered.Offered], str], ...] = (
    (_RESOURCE, offered.resources, "text"),
    (_PROMPT, offered.prompts, "messages"),
)
"""Kind, where its functions are registered, and the backend of an entry that names no function."""


def load(given: Mapping[str, list[Json]], report: Report, *, reason: str, overwrite: bool) -> None:
    """Load both kinds into an open transaction; `bundle.load` describes the treatment of existing rows."""
    for kind, registry, default_backend in _ALL:
        load_each(
            kind,
            given[f"{kind.name}s"],
            report,
            complete=partial(_complete, kind, registry, default_backend),
            reason=reason,
            overwrite=overwrite,
        )


def dump() -> dict[str, Json]:
    """Return the hub's own content: upstream content returns by its own lists, and by approval."""
    return {
        f"{kind.name}s": entries.dump_rows(kind, kind.model.objects.exclude(backend="upstream"))
        for kind, _registry, _backend in _ALL
    }


def _complete(
    kind: Kind, registry: Mapping[str, offered.Offered], default_backend: str, entry: Json
) -> dict[str, Json]:
    check_members(entry, kind)
    wanted = dict(entry)
    if "function" in entry and entry.get("backend", "python") == "python":
        known = registry.get(entry["function"])
        if known is None:
            raise ValueError(
                f"function: there is no registered function {entry['function']!r}. "
                f"Decorate it with @{kind.name} in the tools.py of an installed app or pack."
            )
        members = {column: name for name, column in kind.wire.items()}
        wanted = {**{members.get(name, name): value for name, value in known.columns.items()}, **entry}
    if missing := [name for name in (kind.key, "name") if not wanted.get(name)]:
        raise ValueError(f"{missing[0]}: it is missing.")
    return {"backend": default_backend, **wanted}
