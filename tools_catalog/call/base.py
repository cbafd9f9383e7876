"""The one seam between a call and its backend: arguments and a context in, a result or a failure out.

The backends (Python, HTTP, an upstream) are beside this module; permissions, versions and limits are decided above
it. Imports the protocol core only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from sessions_app.protocol.json import Json as Json

if TYPE_CHECKING:
    from tools_catalog.call.context import ToolContext


class Absent(Enum):
    """The type of `NOTHING`. JSON's null is a value, so `None` cannot mean absence."""

    NOTHING = "nothing"


NOTHING: Final = Absent.NOTHING


@dataclass(slots=True, kw_only=True)
class ToolResult:
    """A tool's answer: content blocks for the model and, optionally, one JSON value for programs."""

    content: list[dict[str, Json]]
    structured: Json | Absent = NOTHING
    is_error: bool = False
    meta: dict[str, Json] | None = None

    def wire(self) -> dict[str, Json]:
        """Return the `CallToolResult` of the newest revision (MCP 2026-07-28, Tools §Tool Result).

        Older revisions lose members on the way out; that is the transport's work, not the result's.
        """
        shape: dict[str, Json] = {"content": self.content}
        if self.structured is not NOTHING:
            shape["structuredContent"] = self.structured
        if self.is_error:
            shape["isError"] = True
        if self.meta:
            shape["_meta"] = self.meta
        return shape


class Backend(Protocol):
    """Carries out one tool. Shared by concurrent calls, so it keeps nothing of a call."""

    async def call(self, arguments: dict[str, Json], context: ToolContext) -> ToolResult:
        """Run the tool. Raises a `HubError`, or `CancelledError` when the call is cancelled, nothing else."""
        ...

    async def aclose(self) -> None:
        """Release the backend's own resources. Shared clients and threads stay."""
        ...
