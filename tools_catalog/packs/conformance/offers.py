"""The resource and the prompt of MCP's conformance suite that take more than words."""

from __future__ import annotations

from tools_catalog.backends.base import Json
from tools_catalog.backends.offered import prompt, resource
from tools_catalog.backends.python import Context


@resource("test://template/{id}/data", name="Data by id", mime_type="application/json", completions={"id": ["123"]})
async def template_data(id: str) -> dict[str, Json]:
    """Data about whatever the id in the URI says."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@prompt
async def test_input_required_result_prompt(context: Context) -> str:
    """Ask the person for the context of their question."""
    given = await context.elicit(
        "What context should the prompt use?",
        {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]},
        key="user_context",
    )
    return f"Use this context: {given.content.get('context', 'none')}"
