"""The `mcp` tools of a request: which tools of the catalogue a client means, and which of them it wants to be asked
about. A `server_url` is a label that is looked up. It is never dialled. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcphub.chat.errors import ChatError
from tools_catalog.catalog import Tool

WHOLE = "hub"
"""The label of the whole catalogue."""
_UNUSED = ("authorization", "headers", "server_description", "allowed_callers", "defer_loading")
"""What is of use only to who dials."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A choice of tools: by name, by what they do, or all."""

    names: frozenset[str] | None = None
    read_only: bool | None = None

    def fits(self, tool: Tool) -> bool:
        return (self.names is None or tool.name in self.names) and (
            self.read_only is None or tool.read_only == self.read_only
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One `mcp` tool of a request."""

    label: str
    """The client's own word, said back in the items."""
    target: str
    """What is looked up: `hub`, the name of a toolset or connection, or an address that one of them is known by."""
    allowed: Filter = field(default_factory=Filter)
    always: tuple[Filter, ...] = ()
    """Calls that need an approval."""
    never: tuple[Filter, ...] = ()
    by_default: bool | None = None
    """Whether a call of a tool that no filter names needs one; None where the request does not say."""

    def needs_approval(self, tool: Tool, *, unsaid: bool) -> bool:
        """`unsaid`: what holds where the request says nothing. For Responses OpenAI's default is yes."""
        if any(each.fits(tool) for each in self.always):
            return True
        if any(each.fits(tool) for each in self.never):
            return False
        return unsaid if self.by_default is None else self.by_default


def read(tool: Mapping[str, Any], at: int) -> tuple[Server, list[str]]:
    """Read one `mcp` tool, the request's tool number `at`; give it and the members that are not used."""
    where = f"tools[{at}]"
    label = tool.get("server_label")
    if not isinstance(label, str) or not label:
        raise ChatError("INVALID_QUERY", "An mcp tool needs server_label, a text.", param=f"{where}.server_label")
    for member in ("connector_id", "tunnel_id"):
        if tool.get(member) is not None:
            raise ChatError(
                "INVALID_QUERY", f'{member} is OpenAI\'s own. Name a server of the hub, or "{WHOLE}", in server_url.',
                param=f"{where}.{member}", openai_code="unsupported_parameter",
            )  # fmt: skip
    target = tool.get("server_url") or label
    if not isinstance(target, str):
        raise ChatError("INVALID_QUERY", "server_url must be a text.", param=f"{where}.server_url")
    always, never, by_default = _approval(tool.get("require_approval"), f"{where}.require_approval")
    server = Server(
        label=label, target=target, allowed=_filter(tool.get("allowed_tools"), f"{where}.allowed_tools"),
        always=always, never=never, by_default=by_default,
    )  # fmt: skip
    return server, [f"{where}.{member}" for member in _UNUSED if tool.get(member) is not None]


def _filter(value: Any, where: str) -> Filter:
    if value is None:
        return Filter()
    if isinstance(value, list):
        value = {"tool_names": value}
    if not isinstance(value, dict):
        raise ChatError("INVALID_QUERY", f"{where} must be a list of names or a filter.", param=where)
    names, read_only = value.get("tool_names"), value.get("read_only")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ChatError("INVALID_QUERY", f"{where} must name tools by texts.", param=where)
    if read_only is not None and not isinstance(read_only, bool):
        raise ChatError("INVALID_QUERY", f"{where}.read_only must be true or false.", param=where)
    return Filter(None if names is None else frozenset(names), read_only)


def _approval(value: Any, where: str) -> tuple[tuple[Filter, ...], tuple[Filter, ...], bool | None]:
    if value is None:
        return (), (), None
    if value == "always":
        return (), (), True
    if value == "never":
        return (), (), False
    if not isinstance(value, dict) or not value.keys() <= {"always", "never"}:
        raise ChatError(
            "INVALID_QUERY", f'{where} must be "always", "never", or an object of filters under these names.',
            param=where,
        )  # fmt: skip
    filters = {name: (_filter(each, f"{where}.{name}"),) for name in ("always", "never") if (each := value.get(name))}
    return filters.get("always", ()), filters.get("never", ()), "never" in filters
