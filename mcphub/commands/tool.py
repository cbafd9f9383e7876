"""`mcphub tool`: the tools of the catalogue, listed, shown and switched on and off."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcphub.commands import rows
from mcphub.commands.rows import RowKind
from mcphub.commands.stop import migrated_database

if TYPE_CHECKING:
    from django.db.models import QuerySet


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="list|show|enable|disable", required=True, title="verbs", dest="verb")
    listed = rows.declare_list(verbs, KIND)
    listed.add_argument("--enabled", action="store_true", help="only those that are served")
    listed.add_argument("--disabled", action="store_true", help="only those that are switched off")
    rows.declare_show(verbs, KIND)
    rows.declare_deed(verbs, KIND, "enable", "serve tools again")
    rows.declare_deed(verbs, KIND, "disable", "serve tools no more; what is on record stays")


def run(options: argparse.Namespace) -> int:
    with migrated_database():
        if options.verb == "show":
            return rows.show_row(KIND, options)
        if options.verb != "list":
            return rows.switch(KIND, options)
        found = _tools()
        if options.enabled != options.disabled:
            found = found.filter(enabled=options.enabled)
        return rows.list_rows(KIND, options, found)


def _tools() -> QuerySet[Any]:
    from tools_catalog.models import McpToolDefinition

    return McpToolDefinition.objects.prefetch_related("groups", "aliases").order_by("name")


def _told(row: Any) -> Mapping[str, Any]:
    from tools_catalog.rest.tools import ToolDefinitionSerializer

    return dict(ToolDefinitionSerializer(row).data)


def _line(told: Mapping[str, Any]) -> list[object]:
    state = "enabled" if told["enabled"] else "disabled"
    effect = "reads" if told["read_only"] else "destroys" if told["destructive"] else "writes"
    return [told["name"], state, told["backend"], effect, f"version {told['version']}"]


KIND = RowKind(
    command="tool",
    noun="tool",
    nouns="tools",
    key="name",
    rows=_tools,
    told=_told,
    line=_line,
    none="There is no such tool. `mcphub catalog load FILE` brings tools.",
)
