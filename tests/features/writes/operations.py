"""What an operator does to a hub's switch, and the tool that is stopped by it."""

from __future__ import annotations


def stop(reason: str) -> int:
    from mcphub.features.writes.models import WriteStop

    return int(WriteStop.objects.stop(None, reason)[0].pk)


def allow() -> None:
    from mcphub.features.writes.models import WriteStop

    for row in WriteStop.objects.in_force():
        row.allow("over")


def make_writing_tools() -> None:
    """Make tools that say back what they are told, and are not read-only: `say`, and one that is always a task."""
    from tools_catalog.models import McpToolDefinition

    echo = McpToolDefinition.objects.get(name="echo")
    for name, support in (("say", "optional"), ("say_task", "required")):
        McpToolDefinition.objects.create(
            name=name,
            description="Echo.",
            backend="python",
            configuration=echo.configuration,
            input_schema=echo.input_schema,
            output_schema=echo.output_schema,
            task_support=support,
        )
