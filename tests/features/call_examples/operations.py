"""An operator's steps with examples of use."""

from __future__ import annotations


def take(tool: str) -> list[str]:
    """Save the examples that a tool's recorded calls propose."""
    from mcphub.features.call_examples.lines import MOST
    from mcphub.features.call_examples.models import ToolExamples
    from mcphub.features.call_examples.taking import proposed
    from tools_catalog.models import McpToolDefinition

    row = ToolExamples(tool=McpToolDefinition.objects.get(name=tool))
    lines = list(proposed(row.tool, (), MOST))
    row.examples = "\n".join(lines)
    row.full_clean()
    row.save()
    return lines
