"""Approval policies, as edits of the catalogue must not evade them."""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings

from mcphub.features.approvals.asking import ALWAYS, DESTRUCTIVE, NEVER
from mcphub.features.approvals.models import McpToolApproval
from tools_catalog.models.reach import READERS, Policed, Toolsets
from tools_catalog.models.ruled import RuledRow


def connect() -> None:
    READERS.append(_approvals)


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
