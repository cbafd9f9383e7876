"""The examples of tools, as the search reads them."""

from __future__ import annotations

from dataclasses import dataclass

from sessions_app.protocol import json
from tools_catalog.catalog.additions import Addition


@dataclass(frozen=True, slots=True)
class SearchedExamples(Addition):
    """Examples of one tool. Clients get none of them."""

    lines: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"call_examples {json.canonical(self.lines)}"

    @property
    def examples(self) -> tuple[str, ...]:
        return self.lines


def read() -> dict[int, SearchedExamples]:
    """Read the examples by the keys of their tools, without those of tools that moved to another workspace since."""
    from mcphub.features.call_examples.models import ToolExamples

    rows = ToolExamples.objects.values_list("tool_id", "examples", "workspace_id", "tool__workspace_id")
    return {
        tool: SearchedExamples(tuple(text.splitlines()))
        for tool, text, workspace, workspace_now in rows
        if text and workspace == workspace_now
    }
