"""Rules about calls in bundles: policy as a file, reviewed and loaded as the rest of the catalogue is."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from mcphub.features.call_rules.models import McpPolicyRule
from tools_catalog.bundles import bundle, entries
from tools_catalog.bundles.entries import Kind, Report, check_members, load_each
from tools_catalog.call.base import Json
from tools_catalog.models.loadable import LoadableModel

KIND = "policy_rules"
_TIMES = ("valid_from", "valid_until")

RULE = Kind(
    name="policy_rule",
    model=McpPolicyRule,
    key="name",
    came_by=LoadableModel.came_by,
    wire={},
    always=("enabled",),
    definition={
        "name": str,
        "applies_to": str,
        "target": str,
        "condition": str,
        "effect": str,
        "words": str,
        "priority": (int, float),
        "valid_from": str,
        "valid_until": str,
        "ask_decider": str,
        "ask_group": str,
        "ask_needed": (int, float),
        "ask_seconds": (int, float),
    },
    operation={"enabled": bool, "watching": bool},
)


def connect() -> None:
    bundle.PARTS.append(bundle.BundlePart(KIND, _load, _dump))


def _load(given: dict[str, list[Json]], report: Report, *, reason: str, overwrite: bool) -> None:
    load_each(RULE, given[KIND], report, complete=_completed, reason=reason, overwrite=overwrite)


def _dump() -> list[dict[str, Json]]:
    return [_written(entry) for entry in entries.dump(RULE)]


def _completed(entry: Json) -> dict[str, Json]:
    """Check an entry's members; give them as the columns take them. Raises ValueError."""
    check_members(entry, RULE)
    if not entry.get("name"):
        raise ValueError("name: it is missing.")
    return {**entry, **{name: _moment(name, entry[name]) for name in _TIMES if entry.get(name)}}


def _moment(name: str, text: str) -> datetime:
    try:
        found = parse_datetime(text)
    except ValueError:
        found = None
    if found is None:
        raise ValueError(f"{name}: it must be a moment, such as 2026-12-31T18:00:00Z.")
    return found if timezone.is_aware(found) else timezone.make_aware(found, timezone.get_default_timezone())


def _written(entry: dict[str, Json]) -> dict[str, Json]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in entry.items()}
