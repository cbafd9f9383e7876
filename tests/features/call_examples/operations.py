"""What an operator does to examples of use."""

from __future__ import annotations


def take(tool: str) -> list[str]:
    """Give a tool the examples that its recorded calls propose."""
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
