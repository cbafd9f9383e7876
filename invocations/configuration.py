"""The operators' settings as one request sees them: all of one moment, however long the request takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from invocations.mapping.error_map import ErrorMap
from invocations.redaction.policy import RedactionPolicy
from sessions_app.caller import Keys
from tools_catalog.catalog.offers import Prompts, Resources
from tools_catalog.catalog.snapshot import Catalog


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Configuration:
    """Snapshots of the database. A change of one makes another Configuration."""

    catalog: Catalog = field(default_factory=Catalog)
    resources: Resources = field(default_factory=Resources)
    prompts: Prompts = field(default_factory=Prompts)
    keys: Keys = field(default_factory=lambda: Keys({}))
    errors: ErrorMap = field(default_factory=ErrorMap)
    redaction: RedactionPolicy = field(default_factory=RedactionPolicy)
    additions: Mapping[str, Any] = field(default_factory=dict)
    """Rows of features (`bus.FollowedRows`) by subject."""
