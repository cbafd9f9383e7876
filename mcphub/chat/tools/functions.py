"""Tools as functions that a model can call, under names that lead back to the tools.

Providers take names of `[a-zA-Z0-9_-]`, at most 64. A tool's name that is one stays as it is; any other is written in
that alphabet with a digest of the whole behind it, so that the same tool has the same function's name in every turn.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from mcphub.chat.errors import ChatError
from mcphub.chat.tools.schema import is_strict, parameters_of
from tools_catalog.catalog import Tool

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
"""OpenAI's bound on a function's description."""
PLAIN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DIGEST = 8


def function_name(tool: str) -> str:
    """Give the name of a tool's function."""
    if PLAIN.fullmatch(tool):
        return tool
    digest = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{re.sub(r'[^a-zA-Z0-9_-]', '_', tool)[: LONGEST_NAME - _DIGEST - 1]}_{digest}"


class Functions:
    """What a model may call in one turn: tools of the catalogue, and functions that the client brought."""

    def __init__(self, tools: Iterable[Tool] = (), client_tools: Iterable[Mapping[str, Any]] = ()) -> None:
        """Raise ChatError where a function of the client has the name of a tool's."""
        self.tools = {function_name(tool.name): tool for tool in tools}
        """By the function's name."""
        self.client_tools = {str(each["function"]["name"]): dict(each) for each in client_tools}
        clash = sorted(self.tools.keys() & self.client_tools.keys())
        if clash:
            raise ChatError(
                "INVALID_QUERY",
                f"The function {clash[0]!r} has the name of a tool of the hub. Rename it, or leave the tool out.",
                param="tools",
            )

    def __bool__(self) -> bool:
        return bool(self.tools or self.client_tools)

    @property
    def renamed(self) -> dict[str, str]:
        """Names of functions that are not those of their tools, with these."""
        return {name: tool.name for name, tool in self.tools.items() if name != tool.name}

    def named(self, name: str) -> str | None:
        """Give the function that a client means by `name`: the function's own, or the tool's."""
        if name in self.tools or name in self.client_tools:
            return name
        return function_name(name) if function_name(name) in self.tools else None

    def only(self, name: str) -> Functions:
        """Give the one function alone."""
        alone = Functions()
        alone.tools = {each: tool for each, tool in self.tools.items() if each == name}
        alone.client_tools = {each: tool for each, tool in self.client_tools.items() if each == name}
        return alone

    def wire(self, *, strict: bool = False) -> list[dict[str, Any]]:
        """Give the request's `tools`; `strict`: the provider knows OpenAI's strict functions."""
        return [*(_function(name, tool, strict) for name, tool in self.tools.items()), *self.client_tools.values()]


def _function(name: str, tool: Tool, strict: bool) -> dict[str, Any]:
    parameters = parameters_of(tool.definition["inputSchema"])
    function: dict[str, Any] = {"name": name, "description": described(tool), "parameters": parameters}
    if strict and is_strict(parameters):
        function["strict"] = True
    return {"type": "function", "function": function}


def described(tool: Tool) -> str:
    """Give a tool's description as a model reads it, within the bound."""
    text = str(tool.definition.get("description") or tool.definition.get("title") or tool.name)
    return text if len(text) <= LONGEST_DESCRIPTION else text[: LONGEST_DESCRIPTION - 1] + "…"


def runs_alone(tool: Tool) -> bool:
    """Whether nothing may run beside the tool: what it does can depend on the order, or be done twice."""
    hints = tool.definition.get("annotations", {})
    if tool.read_only or hints.get("readOnlyHint") is True:
        return False
    return hints.get("destructiveHint", True) is not False or hints.get("idempotentHint", False) is not True
