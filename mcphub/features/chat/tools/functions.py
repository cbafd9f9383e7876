"""Tools as functions that a model can call, under names that lead back to the tools.

Providers take names of `[a-zA-Z0-9_-]`, at most 64, and some a letter first. A tool's name that is one stays as it
is; any other is written in that alphabet with a digest of the whole behind it, so that the same tool has the same
function's name in every turn. Functions that a client brings are renamed in the same way, and the client
reads its own names.

Schemas are rewritten for the provider's dialect. A tool that no rule makes acceptable is left out, with the reason.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from mcphub.features.chat import schema_rules
from mcphub.features.chat.dialects import Dialect
from mcphub.features.chat.errors import invalid
from mcphub.features.chat.tools.schema import is_strict, parameters_of
from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from tools_catalog.catalog.snapshot import Tool

LONGEST_NAME = 64
LONGEST_CLIENT_NAME = 512
"""Characters of the name that a client gives a function of its own."""
LONGEST_DESCRIPTION = 1024
"""OpenAI's bound on a function's description."""
PLAIN = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,63}")
_DIGEST = 8


def function_name(tool: str) -> str:
    """Return the name of the function for a tool, or for a function of a client. It is its own function's name."""
    if PLAIN.fullmatch(tool):
        return tool
    digest = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    plain = re.sub(r"[^a-zA-Z0-9_-]", "_", tool)
    if not plain[:1].isalpha():
        plain = f"t_{plain}"
    return f"{plain[: LONGEST_NAME - _DIGEST - 1]}_{digest}"


@dataclass(frozen=True, slots=True)
class ToolFunction:
    """One tool as a function of a provider's request. The values are sent as they are, and never changed."""

    name: str
    definition: dict[str, Json]
    size: int
    """Bytes of the parameters."""
    why_not: str = ""
    """Why the provider does not take the tool; empty where it does."""


_functions: WeakKeyDictionary[Tool, dict[tuple[Dialect, bool], ToolFunction]] = WeakKeyDictionary()
"""Each tool is rewritten once for a dialect. It goes with its tool, when no snapshot of the catalogue and no turn holds
that."""


def function_of(tool: Tool, dialect: Dialect, *, bare: bool = False) -> ToolFunction:
    """Return the function of a tool. `bare`: with the names of its arguments alone."""
    made = _functions.setdefault(tool, {})
    key = (dialect, bare)
    found = made.get(key)
    if found is None:
        found = made[key] = _rewritten(tool, dialect, bare=bare)
    return found


class Functions:
    """The functions of one turn: tools of the catalogue, and functions of the client."""

    def __init__(
        self, tools: Iterable[Tool] = (), client_tools: Iterable[Mapping[str, Json]] = (), reached: Iterable[Tool] = ()
    ) -> None:
        """Raise ChatError where a function of the client has the name of a tool's. `reached`: tools that the model
        finds by searching."""
        self.tools = {function_name(tool.name): tool for tool in tools}
        """By the function's name."""
        self.reached = {function_name(tool.name): tool for tool in reached}
        self.left_out: dict[str, str] = {}
        """Functions that the provider does not take, with the reason."""
        self._bare: set[str] = set()
        """Functions whose schema the provider rejected: they are sent with the names of their arguments alone."""
        self.client_tools: dict[str, dict[str, Json]] = {}
        self._client_names: dict[str, str] = {}
        """Functions of the client -> their names there, if different."""
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

    @property
    def reasons(self) -> dict[str, str]:
        """Return the tools that the provider does not take, with the reason."""
        return {(self.tools.get(name) or self.reached[name]).name: why for name, why in self.left_out.items()}

    def named(self, name: str) -> str | None:
        """Return the function that a client means by `name`: the function's own, or the tool's."""
        name = function_name(name)
        return name if name in self.tools or name in self.client_tools else None

    def client_name(self, name: str) -> str:
        """Return the client's name of its own function."""
        return self._client_names.get(name, name)

    def only(self, name: str) -> Functions:
        """Return the one function alone."""
        alone = self.listing({each: tool for each, tool in self.tools.items() if each == name})
        alone.left_out = {}
        alone.client_tools = {each: tool for each, tool in self.client_tools.items() if each == name}
        return alone

    def listing(self, tools: dict[str, Tool]) -> Functions:
        """Return the same functions with other tools in the model's list. What a provider does not take is kept in
        both."""
        other = copy.copy(self)
        other.tools = tools
        return other

    def deferred(self, dialect: Dialect) -> dict[str, dict[str, Json]]:
        """Return the functions of the tools that are found by searching, by name; `left_out` has those that are not
        accepted."""
        made = {
            name: function_of(tool, dialect, bare=name in self._bare)
            for name, tool in self.reached.items()
            if name not in self.left_out
        }
        self.left_out |= {name: each.why_not for name, each in made.items() if each.why_not}
        return {name: each.definition["function"] for name, each in made.items() if not each.why_not}

    def called(self, names: Iterable[str]) -> dict[str, str]:
        """Return called functions whose name is not that of their tool, with these."""
        found = {name: tool for name in names if (tool := self.reached.get(name)) is not None}
        return {name: tool.name for name, tool in found.items() if name != tool.name}

    def wire(self, dialect: Dialect) -> list[dict[str, Json]]:
        """Return the request's `tools` in the provider's dialect; `left_out` has those that it does not accept."""
        made = self._made(dialect, bare=False)
        if sum(each.size for each in made.values()) > dialect.most_schema_bytes:
            made = self._made(dialect, bare=True)
        for name, each in made.items():
            if each.why_not:
                self.left_out.setdefault(name, each.why_not)
        taken = [each for name, each in made.items() if name not in self.left_out]
        room = max(0, dialect.most_tools - len(self.client_tools))
        for each in taken[room:]:
            self.left_out[each.name] = f"The provider takes {dialect.most_tools} functions."
        return [*(each.definition for each in taken[:room]), *self.client_tools.values()]

    def _made(self, dialect: Dialect, *, bare: bool) -> dict[str, ToolFunction]:
        return {
            name: function_of(tool, dialect, bare=bare or name in self._bare)
            for name, tool in self.tools.items()
            if name not in self.left_out
        }

    def give_way(self, words: str, param: str | None) -> bool:
        """Change the part of `tools` that a provider's error rejects; False if nothing is left to change.

        A function that the words name is sent bare, then left out; words that name none concern all of them.
        """
        sent = [name for name in self.tools if name not in self.left_out]
        name = _refused(f"{param or ''} {words}", sent)
        if name is None:
            fresh = [each for each in sent if each not in self._bare]
            self._bare.update(fresh)
            return bool(fresh)
        self._send_less_of(name, words)
        return True

    def leave_out_found(self, words: str) -> bool:
        """Do the same for a function that is loaded once it was found; False where the words name none."""
        named = _named(words, [name for name in self.reached if name not in self.left_out])
        if named is not None:
            self._send_less_of(named, words)
        return named is not None

    def _send_less_of(self, name: str, words: str) -> None:
        if name in self._bare:
            self.left_out[name] = words
        self._bare.add(name)


_AT = re.compile(r"(?:tools|function_declarations|functionDeclarations)[.\[](\d+)")
_OF_TOOLS = re.compile(
    r"(?i)\b(?:schema|grammar|function_declarations|functionDeclarations|invalid_function_parameters)\b"
    r"|tools?[.\[]\w|function.{0,40}(?:parameter|name|declaration)|regex lookaround|Go struct field \.tools"
)


def is_about_tools(words: str, param: str | None) -> bool:
    """Return whether a provider's refusal may be over when its tools are sent another way."""
    return bool(_OF_TOOLS.search(words)) or (param or "").startswith("tools")


def _refused(words: str, names: list[str]) -> str | None:
    """Return the function that a provider's words name, by its name or its place."""
    named = _named(words, names)
    if named is not None:
        return named
    places = [int(place) for place in _AT.findall(words)]
    # Google's place stands behind `tools[0].function_declarations`, which holds them all.
    at = places[-1] if places else -1
    return names[at] if 0 <= at < len(names) else None


def _named(words: str, names: list[str]) -> str | None:
    found = [name for name in names if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", words)]
    return max(found, key=len, default=None)


def _rewritten(tool: Tool, dialect: Dialect, *, bare: bool) -> ToolFunction:
    name, parameters = function_name(tool.name), parameters_of(tool.definition["inputSchema"], dialect)
    if bare:
        parameters = schema_rules.bare(parameters)
    function: dict[str, Json] = {"name": name, "description": described(tool), "parameters": parameters}
    if dialect.name in ("openai", "azure") and is_strict(parameters):
        function["strict"] = True
    definition: dict[str, Json] = {"type": "function", "function": function}
    odd = schema_rules.odd_property(parameters, dialect.property_names)
    why_not = "" if odd is None else f"The provider does not take an argument of the name {odd[:60]!r}."
    return ToolFunction(name, definition, len(json.dumps(parameters)), why_not)


def described(tool: Tool) -> str:
    """Return a tool's description as a model reads it, within the bound."""
    text = str(tool.definition.get("description") or tool.definition.get("title") or tool.name)
    return text if len(text) <= LONGEST_DESCRIPTION else text[: LONGEST_DESCRIPTION - 1] + "…"


def runs_alone(tool: Tool) -> bool:
    """Return whether nothing may run beside the tool: its effect may depend on the order, or be repeated."""
    hints = tool.definition.get("annotations", {})
    if tool.read_only or hints.get("readOnlyHint") is True:
        return False
    return hints.get("destructiveHint", True) is not False or hints.get("idempotentHint", False) is not True
