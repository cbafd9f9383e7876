"""Guardrails in bundles."""

from __future__ import annotations

from mcphub.features.guardrails.models import McpGuardrail
from tools_catalog.bundles import bundle, entries
from tools_catalog.bundles.entries import Kind, Report, check_members, load_each
from tools_catalog.call.base import Json
from tools_catalog.models.loadable import LoadableModel

KIND = "guardrails"

GUARDRAIL = Kind(
    name="guardrail",
    model=McpGuardrail,
    key="name",
    came_by=LoadableModel.came_by,
    wire={},
    always=("enabled",),
    definition={
        "name": str,
        "applies_to": str,
        "target": str,
        "direction": str,
        "checked_by": str,
        "detectors": str,
        "max_bytes": (int, type(None)),
        "max_depth": (int, type(None)),
        "function": str,
        "service": str,
        "path": str,
        "seconds": (int, float),
        "on_failure": str,
        "action": str,
        "words": str,
        "position": (int, float),
    },
    operation={"enabled": bool, "watching": bool},
)


def connect() -> None:
    bundle.PARTS.append(bundle.BundlePart(KIND, _load, lambda: entries.dump(GUARDRAIL)))


def _load(given: dict[str, list[Json]], report: Report, *, reason: str, overwrite: bool) -> None:
    load_each(GUARDRAIL, given[KIND], report, complete=_completed, reason=reason, overwrite=overwrite)


def _completed(entry: Json) -> dict[str, Json]:
    """Check an entry's members; give them as the columns take them. Raises ValueError."""
    check_members(entry, GUARDRAIL)
    if not entry.get("name"):
        raise ValueError("name: it is missing.")
    return dict(entry)
