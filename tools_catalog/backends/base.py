"""The one seam between a call and what carries it out: arguments and a context in, a result or a failure out.

What runs a tool (Python, HTTP, an upstream) lives beside this module; who may call, in which version and
under which limits is decided above it. Imports the protocol core only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeAlias

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tools_catalog.backends.questions import Elicited, Question, Root, Sampled, Url

Json: TypeAlias = Any
"""A JSON value that is relayed, not interpreted."""


class Absent(Enum):
    """The type of `NOTHING`. JSON's null is a value, so `None` cannot say that there is none."""

    NOTHING = "nothing"


NOTHING: Final = Absent.NOTHING


@dataclass(slots=True, kw_only=True)
class ToolResult:
    """What a tool answered: content blocks for the model and, optionally, one JSON value for programs."""

    content: list[dict[str, Json]]
    structured: Json | Absent = NOTHING
    is_error: bool = False
    meta: dict[str, Json] | None = None

    def wire(self) -> dict[str, Json]:
        """Give the `CallToolResult` of the newest revision (MCP 2026-07-28, Tools §Tool Result).

        Older revisions lose members on the way out; that is the door's work, not the result's.
        """
        shape: dict[str, Json] = {"content": self.content}
        if self.structured is not NOTHING:
            shape["structuredContent"] = self.structured
        if self.is_error:
            shape["isError"] = True
        if self.meta:
            shape["_meta"] = self.meta
        return shape


class ToolContext(Protocol):
    """What a running tool may know of its call, and say before the answer."""

    @property
    def invocation_id(self) -> str: ...

    @property
    def tool_name(self) -> str: ...

    @property
    def caller_label(self) -> str: ...

    @property
    def caller_principal(self) -> str: ...

    @property
    def caller_scopes(self) -> frozenset[str]: ...

    @property
    def client_capabilities(self) -> Mapping[str, Json]: ...

    @property
    def meta(self) -> Mapping[str, Json] | None:
        """The request's own `_meta`, as it came; None where there is none."""
        ...

    @property
    def log_level(self) -> str | None:
        """The least severe log messages that the client wants; None where it wants none."""
        ...

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> Awaitable[None]:
        """Tell the client how far the call is. Silent when the client did not ask for progress."""
        ...

    def log(self, level: str, data: Json, logger: str | None = None) -> Awaitable[None]:
        """Send a log message of an MCP level. Silent when the client did not ask for that level."""
        ...

    def begin_task(self) -> Awaitable[None]:
        """Answer the client with a task now, if the call may be one, and go on in the background."""
        ...

    @property
    def may_be_task(self) -> bool:
        """Whether the client can follow a task, so that `begin_task` makes one."""
        ...

    @property
    def is_task(self) -> bool:
        """Whether it is one already."""
        ...

    @property
    def parked(self) -> str:
        """The name under which a call waits elsewhere to which the client comes back with answers; empty for none."""
        ...

    @property
    def is_suspended(self) -> bool:
        """Whether the call is being given up only until its client has answered."""
        ...

    def park(self, name: str) -> bool:
        """Have the client bring this name back with its answers; False where it is asked while the call waits."""
        ...

    def remaining_seconds(self) -> float:
        """Give the time left until the call's deadline; never negative."""
        ...

    def require_capability(self, name: str) -> None:
        """Raise `errors.MissingClientCapability` unless the client declared `name`."""
        ...

    def can_ask(self, question: Question) -> bool:
        """Whether the client declared what it needs to be asked this."""
        ...

    def ask(self, questions: Mapping[str, Question]) -> Awaitable[dict[str, Any]]:
        """Ask the client, all at once; give the answers by the same keys. See docs/tools.md, Asking the client.

        A stateless client is answered `input_required` instead, and the tool runs again from its start once the
        answers are there. Raises `errors.AskFailed` where the client cannot be asked or gave no usable answer, on the
        stateless path `errors.MissingClientCapability`; ValueError for a key that this call has used.
        """
        ...

    def elicit(
        self, message: str, schema: Mapping[str, Json] | type[BaseModel], *, key: str | None = None
    ) -> Awaitable[Elicited]: ...

    def elicit_url(
        self, message: str, url: str, *, key: str | None = None, elicitation_id: str | None = None
    ) -> Awaitable[Elicited]: ...

    def require_url(
        self, message: str, url: str, *, key: str | None = None, elicitation_id: str | None = None
    ) -> Awaitable[NoReturn]:
        """End the call, which cannot be made before a person was at an address.

        A client of 2025-11-25 gets the error -32042 with the address and sends the request again, a stateless one is
        asked to open it and learns, in its next round, that the person is not done. Raises accordingly
        `errors.UrlElicitationRequired`, or what `ask` raises and `errors.AskFailed`.
        """
        ...

    def require(self, addresses_to_open: Mapping[str, Url]) -> Awaitable[NoReturn]:
        """The same for several addresses, by key."""
        ...

    def elicitation_id(self, name: str = "") -> str:
        """Give an id for an address that the person is to open: the same whenever this call runs again.

        `backends.addresses.completed(id)` tells the client later that the person is done there.
        """
        ...

    @property
    def names_addresses_by(self) -> tuple[str, str]:
        """What those ids are made of, for another process of the hub that makes the call."""
        ...

    def elicitation_complete(self, elicitation_id: str) -> Awaitable[None]:
        """Tell the client so while the call still runs. Silent where its revision has no such news."""
        ...

    def sample(
        self,
        messages: str | Iterable[dict[str, Json]],
        *,
        max_tokens: int = 1000,
        key: str | None = None,
        **options: Json,
    ) -> Awaitable[Sampled]: ...

    def roots(self, *, key: str | None = None) -> Awaitable[list[Root]]: ...

    def close_stream(self) -> Awaitable[None]:
        """End the connection, not the call: the client fetches the rest by resuming. Does nothing where it cannot."""
        ...


class Backend(Protocol):
    """Carries out one tool. Shared by concurrent calls, so it keeps nothing of a call."""

    async def call(self, arguments: dict[str, Json], context: ToolContext) -> ToolResult:
        """Run the tool. Raises a `HubError`, or `CancelledError` when the call is cancelled, nothing else."""
        ...

    async def aclose(self) -> None:
        """Release what the backend holds alone. Shared clients and threads stay."""
        ...
