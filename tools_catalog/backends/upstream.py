"""A tool of another MCP server as a tool of the hub: the same call, over a connection that is there already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sessions_app.protocol import errors, mcp_apps
from tools_catalog.call.base import NOTHING, Json, ToolResult
from tools_catalog.call.context import ToolContext
from tools_catalog.upstream import bridge, foreign
from tools_catalog.upstream.link import Approval, Offer
from tools_catalog.upstream.listing import TOOL

if TYPE_CHECKING:
    from tools_catalog.upstream.pool import Pool

_MEMBERS = frozenset({"connection", "tool", "digest", "schema_digest", "read_only_hint", "begins_task"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamConfiguration:
    """Which tool of which connection, as it was approved."""

    connection: str
    tool: str
    digest: str
    schema_digest: str
    read_only_hint: bool = False
    """The upstream's value. Shown to clients; the audit goes by the operator's own mark only."""
    begins_task: bool = False
    """The upstream decides which of its calls become tasks."""

    @classmethod
    def parse(cls, raw: Json) -> UpstreamConfiguration:
        """Raise ValueError for a configuration that no approval has written."""
        texts = ("connection", "tool", "digest", "schema_digest")
        if (
            not isinstance(raw, dict)
            or not raw.keys() <= _MEMBERS
            or any(not isinstance(raw.get(n), str) for n in texts)
        ):
            raise ValueError(f"It needs {', '.join(texts)}, as the approval of an upstream's tool writes them.")
        return cls(
            **{name: raw[name] for name in texts},
            read_only_hint=raw.get("read_only_hint") is True,
            begins_task=raw.get("begins_task") is True,
        )


class UpstreamBackend:
    """Calls one tool of an upstream. `pool` gives the connections of the running process."""

    def __init__(self, configuration: UpstreamConfiguration, approval: Approval, pool: Callable[[], Pool]) -> None:
        self._configuration = configuration
        self._offer = Offer(TOOL, configuration.tool, approval)
        self._pool = pool

    @property
    def connection(self) -> str:
        """The name of the connection."""
        return self._configuration.connection

    @property
    def begins_task(self) -> bool:
        """Whether the upstream decides when a call becomes a task."""
        return self._configuration.begins_task

    async def call(self, arguments: dict[str, Json], context: ToolContext) -> ToolResult:
        """Relay the call. The caller's credentials stay here: the upstream sees those of the connection."""
        params: dict[str, Any] = {"name": self._configuration.tool, "arguments": arguments}
        if meta := bridge.passed_on(context.call.meta, context.call.log_level):
            params["_meta"] = meta
        raw = await self._pool().request(self._configuration.connection, "tools/call", params, context, self._offer)
        return result_of(raw, self._configuration.connection)

    async def aclose(self) -> None:
        """Nothing to release: connections are the pool's."""


@dataclass(slots=True, kw_only=True)
class RelayedResult(ToolResult):
    """A result that goes on as it came: in its order, and with members that nobody knows here."""

    whole: dict[str, Json]

    def wire(self) -> dict[str, Json]:
        return self.whole


def result_of(raw: dict[str, Json], connection: str) -> ToolResult:
    """Return a CallToolResult of any revision as ours, with the URIs that the hub has for the connection's views.

    Raises UpstreamError for another kind of result.
    """
    kind = raw.get("resultType", "complete")
    if kind != "complete":
        raise errors.UpstreamError(
            f"The upstream answered with a result of the kind {str(kind)[:50]!r}, not the tool's."
        )
    name = partial(mcp_apps.apart, connection)
    whole = foreign.result_of(raw, "content", mcp_apps.blocks_renamed(raw.get("content") or [], name))
    if "_meta" in whole:
        whole["_meta"] = mcp_apps.renamed(whole["_meta"], name)
    return RelayedResult(
        content=whole["content"],
        structured=whole.get("structuredContent", NOTHING),
        is_error=whole.get("isError") is True,
        meta=whole.get("_meta"),
        whole=whole,
    )
