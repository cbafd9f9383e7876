"""A kind of tool in one file: it says its arguments' text loudly, with a mark that the operator chooses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms

from tools_catalog.call.base import ToolResult
from tools_catalog.call.content import text_block
from tools_catalog.kinds.registry import Basis, DefinedTool, ToolKind, register


class ShoutBackend:
    def __init__(self, mark: str) -> None:
        self._mark = mark

    async def call(self, arguments: dict[str, Any], context: Any) -> ToolResult:
        return ToolResult(content=[text_block(arguments["text"].upper() + self._mark)])

    async def aclose(self) -> None:
        pass


@register
class ShoutKind(ToolKind):
    name = "shout"
    label = "Shouts"
    short_label = "Shout"
    form_fields = ("mark",)

    def check(self, tool: DefinedTool) -> None:
        if tool.configuration.get("mark") not in ("!", "?"):
            raise ValueError("mark: write ! or ?")

    def basis(self, tool: DefinedTool, ground: object) -> Basis:
        mark = tool.configuration["mark"]
        return Basis(make=lambda: ShoutBackend(mark))

    def source(self, configuration: Mapping[str, Any]) -> str:
        return f"with {configuration.get('mark')}"

    def make_form_fields(self, configuration: Mapping[str, Any]) -> dict[str, forms.Field]:
        return {"mark": forms.CharField(required=False, initial=configuration.get("mark", ""))}

    def clean_form(self, form: Any, cleaned: dict[str, Any]) -> None:
        cleaned["configuration"] = {"mark": cleaned.get("mark", "")}
