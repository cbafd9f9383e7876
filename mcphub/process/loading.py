"""Reads the configuration of a process from the database: whole at the start, then changes."""

from __future__ import annotations

from typing import Any

from invocations.configuration import Configuration
from invocations.mapping.load import load_error_map
from invocations.redaction import load as redaction_rules
from sessions_app import bus
from sessions_app.caller import Keys
from sessions_app.kit.features import declared, loaded
from tools_catalog.catalog.additions import adds_prompts
from tools_catalog.catalog.offers import Prompts, Resources
from tools_catalog.catalog.snapshot import Catalog

_OF_CATALOG = frozenset({bus.TOOLS_CHANGED, bus.TOOLSETS_CHANGED})
_OF_WORKSPACES = frozenset({bus.TOOLS_CHANGED, bus.PROMPTS_CHANGED, bus.RESOURCES_CHANGED})


def implied(stale: set[str]) -> set[str]:
    """Return all stale parts: visibility of everything changes with the workspaces. Their keys are announced."""
    return stale | _OF_WORKSPACES if bus.WORKSPACES_CHANGED in stale else stale


def changes(known: Configuration, stale: set[str]) -> dict[str, Any]:
    """Read the stale members of a configuration again; give them by name."""
    found: dict[str, Any] = {}
    if bus.KEYS_CHANGED in stale:
        found["keys"] = Keys.load()
    if bus.ERRORS_CHANGED in stale:
        found["errors"] = load_error_map()
    if bus.REDACTION_CHANGED in stale:
        found["redaction"] = redaction_rules.load()
    if bus.TOOLS_CHANGED in stale:
        found["catalog"] = Catalog.load(known.catalog)
    elif bus.TOOLSETS_CHANGED in stale:
        found["catalog"] = known.catalog.with_toolsets()
    # A connection that is switched off, or changes what it offers, withholds what is read of it.
    has_offers = bus.TOOLS_CHANGED in stale and (known.catalog.upstreams.specs or found["catalog"].upstreams.specs)
    is_offer = bool(has_offers)  # also of the last connection, as it is switched off
    is_added = bus.RESOURCES_CHANGED in stale and adds_prompts()
    if bus.PROMPTS_CHANGED in stale or is_offer or is_added:
        found["prompts"] = Prompts.load()
    if bus.RESOURCES_CHANGED in stale or is_offer:
        found["resources"] = Resources.load()
    if added := _additions(found.get("catalog", known.catalog), stale):
        found["additions"] = {**known.additions, **added}
    return found


def _additions(catalog: Catalog, stale: set[str]) -> dict[str, Any]:
    """Read the stale rows of features; return them by subject."""
    is_other = not stale.isdisjoint(_OF_CATALOG)
    return {
        part.subject: loaded(part.read)(*([catalog] if part.reads_catalog else []))
        for part in declared(bus.FollowedRows)
        if part.subject in stale or (part.reads_catalog and is_other)
    }


def first_configuration() -> Configuration:
    catalog = Catalog.load(None)
    return Configuration(
        catalog=catalog,
        resources=Resources.load(),
        prompts=Prompts.load(),
        keys=Keys.load(),
        errors=load_error_map(),
        redaction=redaction_rules.load(),
        additions=_additions(catalog, {part.subject for part in declared(bus.FollowedRows)}),
    )
