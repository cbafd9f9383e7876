"""Tools that are ready to be listed and called, and a selection of them: the whole catalogue, or a toolset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from django.utils import timezone

from sessions_app.protocol import envelope, json, mcp_apps, schemas, shapes
from sessions_app.protocol.errors import InvalidParams, ToolDisabled, ToolNotFound
from sessions_app.protocol.json import Json
from sessions_app.workspaces.belonging import Workspace
from tools_catalog.call import base
from tools_catalog.call.noted import Noted
from tools_catalog.catalog.additions import Additions, ToolCheck
from tools_catalog.catalog.listing import Audience, Entry, Listing, is_visible
from tools_catalog.upstream.sights import Sight

_SHOWN_SECONDS = 5.0
"""So long features look at arguments that people are shown."""


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True, kw_only=True)
class Tool:
    """One tool, ready to be listed and called. It equals only itself, so derived values can be cached on it."""

    name: str
    version: str
    digest: str
    effect: str = ""
    """Digest of everything that decides what its call does and where: definition, place, secrets, workspace."""
    enabled: bool
    groups: frozenset[int]
    former: tuple[str, ...] = ()
    """Names that still lead to it. What covers one of them covers the tool."""
    read_only: bool
    retry_safe: bool
    timeout_seconds: float
    calls_per_minute: int | None
    task_support: str = "forbidden"
    """A `TaskSupport`."""
    connection: str | None = None
    """The upstream that it is called at."""
    upstream_name: str = ""
    """Its name there."""
    definition: dict[str, Any]
    """The Tool object in its newest form; older revisions are made from it."""
    arguments: schemas.Validator
    result: schemas.Validator | None
    param_headers: tuple[envelope.ParamHeader, ...]
    backend: base.Backend
    method: ClassVar[None] = None
    target: ClassVar[None] = None
    asked_by: ClassVar[None] = None
    """Replaces the name in the record for anything but tool calls."""
    why_not: str = ""
    """Why the tool is not served although it is switched on."""
    sight: Sight | None = None
    """The callers that its upstream shows it to, if that depends on the user."""
    workspace: Workspace | None = None
    """To which it belongs."""
    checks: Mapping[str, ToolCheck] = field(default_factory=dict)
    """The features' checks that concern its calls, set once the snapshot knows its toolsets."""
    hiding: tuple[ToolCheck, ...] = ()
    """Those of them that may hide it from callers."""
    additions: Additions = ()
    """The additions of features."""
    unchanged_definition: dict[str, Any] | None = None
    """The definition without the changes of additions, if there are any: redaction of the record follows it."""

    @property
    def is_for_everybody(self) -> bool:
        """Whether neither groups, nor its upstream, nor a workspace keep it from callers."""
        return not self.groups and self.sight is None and self.workspace is None

    @property
    def owner(self) -> int | None:
        return None if self.workspace is None else self.workspace.key

    def visible_to(self, caller: Audience) -> bool:
        return is_visible(self, caller) and self.hidden_by(caller) is None

    def hidden_by(self, caller: Audience) -> Noted | None:
        """Return the note of the check that hides the tool from the caller; None where none does."""
        for check in self.hiding:
            if (noted := check.hides(self, caller)) is not None:
                return noted
        return None

    def shown(self, arguments: Json, seconds: float = _SHOWN_SECONDS) -> Json:
        """Return arguments as a record shows them of a call that is not made, or not yet."""
        for check in self.checks.values():
            arguments = check.shown(arguments, seconds)
        return arguments

    @property
    def is_for_models(self) -> bool:
        """Whether a model may call it; else only views do (SEP-1865, visibility)."""
        return mcp_apps.MODEL in mcp_apps.visibility(self.definition.get("_meta"))

    @property
    def is_for_views(self) -> bool:
        """Whether a view of the same server may call it."""
        return mcp_apps.APP in mcp_apps.visibility(self.definition.get("_meta"))


@dataclass(frozen=True, slots=True)
class Alias:
    """A former name of a tool or prompt."""

    name: str
    leads_to: str
    expires_at: datetime

    @property
    def is_live(self) -> bool:
        return timezone.now() < self.expires_at


class Selection:
    """Tools by name, their lists, and the rules by which a caller finds one."""

    instructions = ""
    """Sent to clients that connect here."""
    where_names_are = "Ask tools/list for the names."
    """Appended to the error for an unknown name."""

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        *,
        aliases: Iterable[Alias] = (),
        listed: Mapping[str, Entry] | None = None,
        scope: str = "",
    ) -> None:
        """`listed` replaces the tools in lists for clients; `scope` separates cursors."""
        self.tools = {tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)}
        self._open = {name: tool for name, tool in self.tools.items() if tool.enabled and tool.is_for_everybody}
        self.aliases = {alias.name: alias for alias in aliases if alias.leads_to in self.tools}
        self.tasking = frozenset(tool.name for tool in self.tools.values() if tool.task_support != "forbidden")
        """Names of the tools that may run as tasks."""
        self.has_param_headers = any(tool.param_headers for tool in self.tools.values())
        """Whether headers repeat arguments of a tool."""
        shown = self.tools if listed is None else listed
        for_models = {
            name: entry for name, entry in shown.items() if not isinstance(entry, Tool) or entry.is_for_models
        }
        varies = len(for_models) < len(shown)
        with_views = {tool.connection for tool in self.tools.values() if mcp_apps.view_of(tool.definition.get("_meta"))}
        self._of_views = [tool for tool in self.tools.values() if tool.connection in with_views - {None}]
        """Tools of upstreams with views, whose pages use the upstream's names."""
        self.tool_list = Listing("tools", shown, shapes.tool_for, scope, varies=varies)
        """The list for clients that show views and keep them from the model."""
        self.model_list = self.tool_list
        """The list for all other clients, which pass everything to the model."""
        if varies:
            self.model_list = Listing("tools", for_models, shapes.tool_for, f"{scope} model", varies=True)

    def listing(self, caller: Audience, *, shows_views: bool) -> Listing:
        """Return the list for a client that shows views, or for one that passes everything to its model."""
        return self.tool_list if shows_views else self.model_list

    def instructions_for(self, caller: Audience) -> str:
        """Return the instructions for a client that connects here."""
        return self.instructions

    def offered(self, caller: Audience) -> Mapping[str, Tool]:
        """Return the tools that the caller's model may call."""
        return {
            name: tool
            for name, tool in self.tools.items()
            if tool.enabled and tool.is_for_models and tool.visible_to(caller)
        }

    def real_name(self, name: str) -> str:
        """Return the name that a tool has now, of this or of a former name; `name` where neither is known."""
        alias = None if name in self.tools else self.aliases.get(name)
        return alias.leads_to if alias is not None and alias.is_live else name

    def named_by_view(self, name: Json, caller: Audience) -> Json:
        """Return the name here of a tool that a view may mean: its page calls tools by the names that its own server
        has for them, and the client passes that on. A name that exists here already, or belongs to no tool, stays.

        Raises InvalidParams where the tools of several connections have the name.
        """
        if not self._of_views or not isinstance(name, str) or name in self.tools or name in self.aliases:
            return name
        found = [
            tool.name
            for tool in self._of_views
            if tool.upstream_name == name and tool.enabled and tool.is_for_views and tool.visible_to(caller)
        ]
        if len(found) > 1:
            raise InvalidParams(
                f"Several servers behind the hub have a tool {name[:100]} that views call: {', '.join(found[:5])}. "
                "Call one of them by this name, or use a toolset that holds one of these servers only."
            )
        return found[0] if found else name

    def find(self, name: str, caller: Audience) -> Tool:
        """Return the tool of the name, or of the former name; raise ToolNotFound (hidden ones too) or ToolDisabled."""
        tool = self._open.get(name)
        if tool is not None and not tool.hiding:
            return tool
        tool = self.tools.get(name)
        if tool is None and self.aliases:
            tool = self.tools.get(self.real_name(name))
        noted = None
        if tool is None or not is_visible(tool, caller) or (noted := tool.hidden_by(caller)):
            raise self._missing(name, noted)
        if not tool.enabled:
            why = tool.why_not or "It is switched off. Ask the hub's operator to enable it, or choose another."
            raise ToolDisabled(f"The tool {name} is not served. {why}", tool=name)
        return tool

    def _missing(self, name: str, noted: Noted | None) -> ToolNotFound:
        # Made here: a frame that holds the error it raises is a cycle, and keeps what its callers were given.
        error = ToolNotFound(
            f"There is no tool named {json.dumps(name[:100]).decode()}. {self.where_names_are}", tool=name[:100]
        )
        error.noted = noted
        return error

    def unwrapped_call(self, params: dict[str, Json]) -> dict[str, Json]:
        """Return the params of the `tools/call` that a request means."""
        return params
