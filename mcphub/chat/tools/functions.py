"""Tools as functions that a model can call, under names that lead back to the tools.

Providers take names of `[a-zA-Z0-9_-]`, at most 64. A tool's name that is one stays as it is; any other is written in
that alphabet with a digest of the whole behind it, so that the same tool has the same function's name in every turn.
Functions that a client brings are renamed in the same way, and the client hears of them by its own names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from mcphub.chat.errors import invalid
from mcphub.chat.tools.schema import is_strict, parameters_of
from sessions_app.protocol.json import Json
from tools_catalog.catalog.snapshot import Tool

LONGEST_NAME = 64
LONGEST_CLIENT_NAME = 512
"""Characters of the name that a client gives a function of its own."""
LONGEST_DESCRIPTION = 1024
"""OpenAI's bound on a function's description."""
PLAIN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DIGEST = 8


def function_name(tool: str) -> str:
    """Give the name of the function for a tool, or for a function of a client. It is its own function's name."""
    if PLAIN.fullmatch(tool):
        return tool
    digest = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{re.sub(r'[^a-zA-Z0-9_-]', '_', tool)[: LONGEST_NAME - _DIGEST - 1]}_{digest}"


@dataclass(frozen=True, slots=True)
class ToolFunction:
    """One tool as a function of a provider's request. The values are sent as they are, and never changed."""

    name: str
    definition: dict[str, Json]
    strict_definition: dict[str, Json]
    """For providers that know OpenAI's strict functions."""


_functions: WeakKeyDictionary[Tool, ToolFunction] = WeakKeyDictionary()
"""Each tool is rewritten once. It goes with its tool, when no snapshot of the catalogue and no turn holds that."""


def function_of(tool: Tool) -> ToolFunction:
    found = _functions.get(tool)
    if found is None:
        found = _functions[tool] = _rewritten(tool)
    return found


class Functions:
    """What a model may call in one turn: tools of the catalogue, and functions that the client brought."""

    def __init__(self, tools: Iterable[Tool] = (), client_tools: Iterable[Mapping[str, Json]] = ()) -> None:
        """Raise ChatError where a function of the client has the name of a tool's."""
        self.tools = {function_of(tool).name: tool for tool in tools}
        """By the function's name."""
        self.client_tools: dict[str, dict[str, Json]] = {}
        self._client_names: dict[str, str] = {}
        """Functions of the client -> what it calls them, where that is another name."""
        for each in client_tools:
            called = str(each["function"]["name"])
            name = function_name(called)
            if name != called:
                self._client_names[name] = called
            self.client_tools[name] = {**each, "function": {**each["function"], "name": name}}
        clash = sorted(self.tools.keys() & self.client_tools.keys())
        if clash:
            raise invalid(
                "tools",
                f"The function {clash[0]!r} has the name of a tool of the hub. Rename it, or leave the tool out.",
            )

    def __bool__(self) -> bool:
        return bool(self.tools or self.client_tools)

    @property
    def renamed(self) -> dict[str, str]:
        """Names of functions that are not those of their tools, with these."""
        return {name: tool.name for name, tool in self.tools.items() if name != tool.name}

    def named(self, name: str) -> str | None:
        """Give the function that a client means by `name`: the function's own, or the tool's."""
        name = function_name(name)
        return name if name in self.tools or name in self.client_tools else None

    def client_name(self, name: str) -> str:
        """Give what the client calls a function of its own."""
        return self._client_names.get(name, name)

    def only(self, name: str) -> Functions:
        """Give the one function alone."""
        alone = Functions()
        alone.tools = {each: tool for each, tool in self.tools.items() if each == name}
        alone.client_tools = {each: tool for each, tool in self.client_tools.items() if each == name}
        return alone

    def wire(self, *, strict: bool = False) -> list[dict[str, Json]]:
        """Give the request's `tools`; `strict`: the provider knows OpenAI's strict functions."""
        made = (function_of(tool) for tool in self.tools.values())
        return [*(each.strict_definition if strict else each.definition for each in made), *self.client_tools.values()]


def _rewritten(tool: Tool) -> ToolFunction:
    name, parameters = function_name(tool.name), parameters_of(tool.definition["inputSchema"])
    function = {"name": name, "description": described(tool), "parameters": parameters}
    definition = {"type": "function", "function": function}
    strict = {"type": "function", "function": {**function, "strict": True}} if is_strict(parameters) else definition
    return ToolFunction(name, definition, strict)


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
