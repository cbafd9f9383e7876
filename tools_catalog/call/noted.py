"""Notes of a call's stages for its record: the columns of its row about interventions."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """Each field is a column of the row, null without an intervention by its stage."""

    policy_rule: str | None = None
    policy_version: int | None = None
    policy_said: str | None = None
    policy_watched: str | None = None
    guardrails: str | None = None

    def on_record(self) -> dict[str, str | int]:
        """Return the non-null values, by column."""
        return {name: value for name in _COLUMNS if (value := getattr(self, name)) is not None}

    def over(self, before: Noted) -> Noted:
        """Return these notes, completed by those that were taken before them."""
        changes: dict[str, Any] = self.on_record()
        return replace(before, **changes) if changes else before


_COLUMNS = tuple(field.name for field in fields(Noted))
NOTHING_NOTED = Noted()
