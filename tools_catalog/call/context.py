"""A backend's view of its call, in parts, and null parts for calls without a feature.

Each kind of call makes those parts that it has: one under way here (`invocations.call.context`), one that another
process of the hub passed on, one that waits for its client (both in `upstream`). Authors of tools see
`backends.context.Context`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from sessions_app.protocol.errors import AskFailed

if TYPE_CHECKING:
    from sessions_app.workspaces.scope import Scope
    from tools_catalog.call.base import Json
    from tools_catalog.call.input_requests import InputRequest, Url


@dataclass(frozen=True, slots=True, kw_only=True)
class CallInfo:
    """The caller and the tool, and the client's description of itself."""

    invocation_id: str
    tool_name: str
    caller_label: str
    caller_principal: str
    caller_scopes: frozenset[str] = frozenset()
    client_capabilities: Mapping[str, Json]
    meta: Mapping[str, Json] | None = None
    """The request's own `_meta`, as it came; None where there is none."""
    log_level: str | None = None
    """The least severe log messages that the client wants; None where it wants none."""


class Deadline(Protocol):
    def remaining_seconds(self) -> float:
        """Return the time left until the call's deadline; never negative, infinite where there is none."""
        ...


class Notifier(Protocol):
    """Notifications to the client of the call. Each method is silent where the client did not ask for it."""

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> Awaitable[None]:
        """Send the client the call's progress."""
        ...

    def log(self, level: str, data: Json, logger: str | None = None) -> Awaitable[None]:
        """Send a log message of an MCP level."""
        ...

    def elicitation_complete(self, elicitation_id: str) -> Awaitable[None]:
        """Notify the client, while the call still runs, that the person is done at an address of this call."""
        ...

    def close_stream(self) -> Awaitable[None]:
        """End the connection, not the call: the client fetches the rest by resuming. Does nothing where it cannot."""
        ...


class ClientInput(Protocol):
    """Input from the client of the call: elicitation, sampling, roots."""

    def can_ask(self, request: InputRequest) -> bool:
        """Return whether the client declared the capability for this request."""
        ...

    def ask(self, requests: Mapping[str, InputRequest]) -> Awaitable[dict[str, Any]]:
        """Send the client input requests, all at once; give its responses by the same keys.

        A stateless client is answered `input_required` instead, and the tool runs again from its start once the
        responses are there. Raises `errors.AskFailed` where the client cannot be asked or gave no usable response, on
        the stateless path `errors.MissingClientCapability`; ValueError for a key that this call has used.
        """
        ...

    def require(self, addresses: Mapping[str, Url]) -> Awaitable[NoReturn]:
        """End the call, which cannot be made before a person has opened these addresses.

        A client of 2025-11-25 gets the error -32042 with the addresses and sends the request again; a stateless one
        is asked to open them and learns, in its next round, that the person is not done. Raises accordingly
        `errors.UrlElicitationRequired`, or the errors of `ask` and `errors.AskFailed`.
        """
        ...

    def elicitation_id(self, name: str = "") -> str:
        """Return an id for an address that the person is to open: the same whenever this call runs again.

        `addresses.completed(id)` later notifies the client that the person is done there.
        """
        ...

    @property
    def elicitation_seed(self) -> tuple[str, str]:
        """Inputs of the elicitation ids, so that another process of the hub can derive them."""
        ...


class Suspension(Protocol):
    """How a call is given up until its client comes back with input responses."""

    @property
    def is_suspended(self) -> bool:
        """Whether the call is being given up only until its client has answered."""
        ...

    @property
    def resume_token(self) -> str:
        """The name of a suspended call that the client came back to; empty for none."""
        ...

    def resume_with(self, token: str) -> bool:
        """Have the client bring this name back with its responses; False where the call waits for them itself."""
        ...


class TaskControl(Protocol):
    """Whether the call is a task of the client's (MCP, Tasks)."""

    @property
    def is_possible(self) -> bool:
        """Whether the client can follow a task, so that `begin` makes one."""
        ...

    @property
    def has_begun(self) -> bool: ...

    def begin(self) -> Awaitable[None]:
        """Answer the client with a task now, if the call may be one, and go on in the background."""
        ...


class Permissions(Protocol):
    """The tools that the caller of this call may call now, and how they are shown to it."""

    def of(self, tools: Sequence[Any]) -> Awaitable[list[dict[str, Json]]]:
        """Return for each of these tools of the catalogue whether the caller may call it now, and why not."""
        ...

    def shown(self, tool: Any) -> dict[str, Json]:
        """Return the definition of a tool of the catalogue as the caller's lists have it."""
        ...


class ToolContext(Protocol):
    """The parts of one call."""

    @property
    def call(self) -> CallInfo: ...

    @property
    def workspace(self) -> Scope | None:
        """The one that the caller came by; the hub's own functions read the rows of that one alone."""
        ...

    @property
    def deadline(self) -> Deadline: ...

    @property
    def notifier(self) -> Notifier: ...

    @property
    def input(self) -> ClientInput: ...

    @property
    def suspension(self) -> Suspension: ...

    @property
    def task(self) -> TaskControl: ...

    @property
    def permissions(self) -> Permissions: ...


class NoDeadline:
    def remaining_seconds(self) -> float:
        return float("inf")


class NullNotifier:
    """For a call whose client receives nothing before the result."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        pass

    async def log(self, level: str, data: Json, logger: str | None = None) -> None:
        pass

    async def elicitation_complete(self, elicitation_id: str) -> None:
        pass

    async def close_stream(self) -> None:
        pass


class NoClientInput:
    """For a call whose client cannot be asked anything."""

    elicitation_seed = ("", "")

    def can_ask(self, request: InputRequest) -> bool:
        return False

    async def ask(self, requests: Mapping[str, InputRequest]) -> dict[str, Any]:
        raise AskFailed("The tool asks its client, and this way in has none that could answer. Use an MCP client.")

    async def require(self, addresses: Mapping[str, Url]) -> NoReturn:
        await self.ask(addresses)
        raise AssertionError("asking raises")

    def elicitation_id(self, name: str = "") -> str:
        return ""


class NoSuspension:
    """Of a call that waits for its client, or never asks it."""

    is_suspended = False
    resume_token = ""

    def resume_with(self, token: str) -> bool:
        return False


class NoTask:
    """For a call whose client cannot follow a task."""

    is_possible = False
    has_begun = False

    async def begin(self) -> None:
        pass


class NoPermissions:
    """For a call outside of the catalogue."""

    async def of(self, tools: Sequence[Any]) -> list[dict[str, Json]]:
        return [{"verdict": "no"} for _ in tools]

    def shown(self, tool: Any) -> dict[str, Json]:
        definition: dict[str, Json] = tool.definition
        return definition


NO_DEADLINE: Final = NoDeadline()
NULL_NOTIFIER: Final = NullNotifier()
NO_CLIENT_INPUT: Final = NoClientInput()
NO_SUSPENSION: Final = NoSuspension()
NO_TASK: Final = NoTask()
NO_PERMISSIONS: Final = NoPermissions()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContextParts:
    """A ToolContext composed of parts; missing ones are absent."""

    call: CallInfo
    deadline: Deadline = NO_DEADLINE
    notifier: Notifier = NULL_NOTIFIER
    input: ClientInput = NO_CLIENT_INPUT
    suspension: Suspension = NO_SUSPENSION
    task: TaskControl = NO_TASK
    permissions: Permissions = NO_PERMISSIONS
    workspace: Scope | None = None
