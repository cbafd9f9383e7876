"""Error mappings in bundles of the catalogue."""

from __future__ import annotations

from typing import Any

from invocations.models import McpErrorMapping
from tools_catalog.backends.base import Json
from tools_catalog.importers import bundle, content, entries
from tools_catalog.importers.entries import Kind, Report, check_members, load_each

KIND = "error_mappings"


def _came_by(row: Any, reason: str) -> bool:
    """What nobody touched since it shipped follows any bundle."""
    return not row.history.exists() or content.came_by(row, reason)


_MAPPING = Kind(
    name="error_mapping", model=McpErrorMapping, key="internal_code", came_by=_came_by, wire={}, operation={},
    definition={
        "internal_code": str, "json_rpc_code": int, "message_template": str, "retryable": bool, "data_schema": dict,
    },
    always=("retryable",),
)  # fmt: skip


def connect() -> None:
    bundle.PARTS.append(bundle.Part(KIND, _load, lambda: entries.dump(_MAPPING)))


def _load(given: dict[str, list[Json]], report: Report, *, reason: str, overwrite: bool) -> None:
    load_each(_MAPPING, given[KIND], report, complete=_complete, reason=reason, overwrite=overwrite)


def _complete(entry: Any) -> dict[str, Json]:
    check_members(entry, _MAPPING)
    if "internal_code" not in entry:
        raise ValueError("internal_code: it is missing.")
    return dict(entry)
