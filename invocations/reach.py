"""Approval policies and redaction, as edits of the catalogue must not evade them."""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings
from django.utils.translation import gettext as _t

from invocations.approvals.asking import ALWAYS, DESTRUCTIVE, NEVER
from invocations.approvals.models import McpToolApproval
from invocations.redaction.models import McpRedactionRule
from invocations.redaction.places import Annotated
from invocations.redaction.policy import HEADER
from tools_catalog.models.reach import READERS, Policed, Toolsets
from tools_catalog.models.ruled import RuledRow


def connect() -> None:
    READERS.extend((_approvals, _redaction))


def _approvals() -> Iterable[Policed]:
    """Return the approval policies, as one policy for clients and one for models of the chat."""
    known = dict(McpToolApproval.objects.values_list("tool_id", "policy"))
    label = str(McpToolApproval._meta.verbose_name)
    defaults = {settings.MCPHUB_APPROVAL, settings.MCPHUB_CHAT_APPROVAL}
    return [_approval(label, known, otherwise) for otherwise in sorted(defaults) if known or otherwise != NEVER]


def _approval(label: str, known: dict[int, str], otherwise: str) -> Policed:
    def covers(tool: RuledRow, _toolsets: Toolsets) -> str | None:
        policy = otherwise if tool.key is None else known.get(tool.key, otherwise)
        destroys = tool.definition["annotations"].get("destructiveHint") is True
        return "" if policy == ALWAYS or (policy == DESTRUCTIVE and destroys) else None

    return Policed(label, covers)


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
