"""What a size would do to the newest recorded result of its tool."""

from __future__ import annotations

from dataclasses import dataclass

from invocations.models import McpToolInvocation
from mcphub.features.fitting.fitting import CHARACTERS_A_TOKEN, META, fitted
from mcphub.features.fitting.models import ResultSize
from sessions_app.protocol import json
from sessions_app.protocol.json import Json

_LOOKED_AT = 20
"""Calls among which one with a whole result is searched."""


@dataclass(frozen=True, slots=True)
class SizeTrial:
    """Characters of a result before and after, as clients get it."""

    before: int
    after: int
    problem: str = ""

    @property
    def before_tokens(self) -> int:
        return self.before // CHARACTERS_A_TOKEN

    @property
    def after_tokens(self) -> int:
        return self.after // CHARACTERS_A_TOKEN

    @property
    def percent(self) -> int:
        return round(self.after * 100 / max(1, self.before))


def trial_of(row: ResultSize) -> SizeTrial | None:
    """Return the effect on the newest result of its tool that is on record whole; None where there is none."""
    assert row.tool is not None
    calls = McpToolInvocation.objects.filter(tool_name=row.tool.name, status="ok", method__isnull=True)
    for call in calls.order_by("-id").only("result", "left_out")[:_LOOKED_AT]:
        wire: Json = call.result
        if isinstance(wire, dict) and isinstance(wire.get("content"), list) and not _is_part(call, wire):
            made = fitted(wire, row.fields, row.most_characters, lambda value: True, has_tables=row.tables_as_csv)
            return SizeTrial(len(json.canonical(wire)), len(json.canonical(made.wire)), made.problem)
    return None


def _is_part(call: McpToolInvocation, wire: dict[str, Json]) -> bool:
    return META in wire.get("_meta", {}) or "result" in (call.left_out or {})
