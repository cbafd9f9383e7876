"""Tools whose calls an operator makes again, as they were before an edit and after it."""

from __future__ import annotations

from tools_catalog.models import McpToolDefinition


def tool_of_two_versions(name: str, required: list[str] | None = None) -> None:
    """Make a tool like `echo`, then let it require more, or say otherwise what it does."""
    echo = McpToolDefinition.objects.get(name="echo")
    tool = McpToolDefinition(
        name=name,
        description="Echo.",
        backend="python",
        configuration=echo.configuration,
        read_only=True,
        destructive=False,
        input_schema=echo.input_schema,
        output_schema=echo.output_schema,
    )
    tool.save()
    if required is not None:
        known = {**{key: {"type": "string"} for key in required}, **echo.input_schema["properties"]}
        tool.input_schema = {**echo.input_schema, "properties": known, "required": required}
    else:
        tool.description = "Echo, said otherwise."
    tool.save()
