"""Call rules, as edits of the catalogue must not evade them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from mcphub.features.call_rules.models import McpPolicyRule, read_rules
from mcphub.features.call_rules.rule import ALLOW, Rule, tool_context
from sessions_app.protocol import json
from tools_catalog.models.reach import READERS, Policed, Toolsets
from tools_catalog.models.renaming import SCOPED
from tools_catalog.models.ruled import RuledRow


def connect() -> None:
    READERS.append(_rules)
    SCOPED.append(McpPolicyRule)


def _rules() -> Iterable[Policed]:
    now = time.time()
    return [
        _policed(rule)
        for rule in read_rules()
        if not rule.watching and (rule.valid_until is None or rule.valid_until > now)
    ]


def _policed(rule: Rule) -> Policed:
    def covers(tool: RuledRow, toolsets: Toolsets) -> str | None:
        return _read_of(rule, tool) if rule.concerns(tool, toolsets) else None

    named = tuple(rule.target.split()) if rule.applies_to == "toolset" else ()
    return Policed(f"{McpPolicyRule._meta.verbose_name} {rule.name}", covers, named, rule.effect == ALLOW)


def _read_of(rule: Rule, tool: RuledRow) -> str:
    """Return the members of the tool that the rule's condition reads, except the version, which each edit changes."""
    if rule.condition is None:
        return ""
    context: Any = {**tool_context(tool), "version": ""}
    read = []
    for path in sorted(rule.condition.tool_paths):
        value = context
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        read.append(value)
    return json.canonical(read)
