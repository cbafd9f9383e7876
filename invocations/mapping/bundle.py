"""Error mappings in bundles of the catalogue."""

from __future__ import annotations

from invocations.models import McpErrorMapping
from tools_catalog.bundles import bundle, entries
from tools_catalog.bundles.entries import Kind, Report, check_members, load_each
from tools_catalog.call.base import Json
from tools_catalog.models.loadable import SHIPPED

KIND = "error_mappings"


def _came_by(row: McpErrorMapping, reason: str) -> bool:
    """Untouched shipped entries follow any bundle."""
    return row.loaded_by == SHIPPED or row.came_by(reason)


_MAPPING = Kind(
    name="error_mapping",
    model=McpErrorMapping,
    key="internal_code",
    came_by=_came_by,
    wire={},
    operation={},
    definition={
        "internal_code": str,
        "json_rpc_code": int,
        "message_template": str,
        "retryable": bool,
        "data_schema": dict,
    },
    always=("retryable",),
)


def connect() -> None:
    bundle.PARTS.append(bundle.BundlePart(KIND, _load, lambda: entries.dump(_MAPPING)))


def _load(given: dict[str, list[Json]], report: Report, *, reason: str, overwrite: bool) -> None:
    load_each(_MAPPING, given[KIND], report, complete=_complete, reason=reason, overwrite=overwrite)


def _complete(entry: Json) -> dict[str, Json]:
    check_members(entry, _MAPPING)
    if "internal_code" not in entry:
        raise ValueError("internal_code: it is missing.")
    return dict(entry)
