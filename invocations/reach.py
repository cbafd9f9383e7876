"""Redaction, as edits of the catalogue must not evade it."""

from __future__ import annotations

from collections.abc import Iterable

from django.utils.translation import gettext as _t

from invocations.redaction.models import McpRedactionRule
from invocations.redaction.places import Annotated
from invocations.redaction.policy import HEADER
from tools_catalog.models.reach import READERS, Policed
from tools_catalog.models.ruled import RuledRow


def connect() -> None:
    READERS.append(_redaction)


def _redaction() -> Iterable[Policed]:
    """Return the redaction rules that name tools, and the marks of each tool's own schemas."""
    rows = list(McpRedactionRule.objects.filter(enabled=True))
    headers = frozenset(row.place.casefold() for row in rows if row.kind == HEADER)
    named = [_redaction_rule(row) for row in rows if row.tool_name]
    return [*named, Policed(_t("secret marks of its schema"), lambda tool, _: _marks(tool, headers), of_copies=False)]


def _redaction_rule(row: McpRedactionRule) -> Policed:
    rule = row.rule()
    return Policed(f"{row._meta.verbose_name} {row}", lambda tool, _: "" if rule.is_for(tool.name) else None)


def _marks(tool: RuledRow, headers: frozenset[str]) -> frozenset[str] | None:
    found = set()
    for member in ("inputSchema", "outputSchema"):
        if (marker := Annotated.of(tool.definition.get(member), headers)) is not None:
            found |= {f"{member} {place}" for place in marker.marked()}
    return frozenset(found) or None
