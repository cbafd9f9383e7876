"""The context of async tools: the parts of a call as one flat interface. See docs/integrate/tools.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Literal, NoReturn

from pydantic import BaseModel

from sessions_app import bus
from sessions_app.protocol.errors import MissingClientCapability
from sessions_app.workspaces import scope
from tools_catalog.call.base import Json
from tools_catalog.call.context import ToolContext
from tools_catalog.call.input_requests import Elicited, Form, InputRequest, Root, Roots, Sample, Sampled, Url

_EVERYWHERE: Final = nullcontext()
_LISTS: Final = {"tools": bus.TOOLS_CHANGED, "prompts": bus.PROMPTS_CHANGED, "resources": bus.RESOURCES_CHANGED}


def reading_for(parts: ToolContext) -> AbstractContextManager[object]:
    """Return a context in which tool functions read the rows visible to the caller."""
    workspace = parts.workspace
    return _EVERYWHERE if workspace is None else scope.acting_in(workspace)


class Context:
    """An async tool's access to its call, and its messages before the result."""

    __slots__ = ("_keys", "_parts")

    def __init__(self, parts: ToolContext) -> None:
        self._parts = parts
        self._keys: set[str] = set()

    @property
    def invocation_id(self) -> str:
        """The call's id in the audit."""
        return self._parts.call.invocation_id

    @property
    def tool_name(self) -> str:
        """The name by which the tool was called."""
        return self._parts.call.tool_name

    @property
    def caller_label(self) -> str:
        """The caller's name as the audit shows it."""
        return self._parts.call.caller_label

    @property
    def caller_principal(self) -> str:
        """The caller: `key:<id>`, `user:<id>`, `local:<number>` or `anonymous`."""
        return self._parts.call.caller_principal

    @property
    def caller_scopes(self) -> frozenset[str]:
        """The scopes of the caller's key, such as `audit:read`."""
        return self._parts.call.caller_scopes

    @property
    def client_capabilities(self) -> Mapping[str, Json]:
        """The client's declared capabilities."""
        return self._parts.call.client_capabilities

    def require_capability(self, name: str) -> None:
        """Raise `errors.MissingClientCapability` unless the client declared `name`."""
        if name not in self._parts.call.client_capabilities:
            raise MissingClientCapability({name: {}})

    def remaining_seconds(self) -> float:
        """Return the time left until the call's deadline; never negative."""
        return self._parts.deadline.remaining_seconds()

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send the client the call's progress. Silent when the client did not ask for progress."""
        await self._parts.notifier.progress(progress, total, message)

    async def log(self, level: str, data: Json, logger: str | None = None) -> None:
        """Send a log message of an MCP level. Silent when the client did not ask for that level."""
        await self._parts.notifier.log(level, data, logger)

    async def close_stream(self) -> None:
        """End the connection, not the call: the client fetches the rest by resuming. Does nothing where it cannot."""
        await self._parts.notifier.close_stream()

    async def list_changed(self, kind: Literal["tools", "prompts", "resources"]) -> None:
        """Notify all listening clients, of all callers, that a list has changed although no row did.

        Changes of rows are announced without it. Clients fetch the list again, so call it once for many changes.
        """
        await bus.announce(_LISTS[kind])

    async def begin_task(self) -> None:
        """Answer the client with a task now, if the call may be one, and go on in the background."""
        await self._parts.task.begin()

    # Input of the client ----------------------------------------------------------------------------

    def can_ask(self, request: InputRequest) -> bool:
        """Return whether the client declared the capability for this question."""
        return self._parts.input.can_ask(request)

    async def ask(self, requests: Mapping[str, InputRequest]) -> dict[str, Any]:
        """Ask the client, all at once; give the responses by the same keys. See docs/integrate/tools.md."""
        self._keys |= requests.keys()
        return await self._parts.input.ask(requests)

    async def elicit(
        self, message: str, schema: Mapping[str, Json] | type[BaseModel], *, key: str | None = None
    ) -> Elicited:
        """Ask the person to fill in a form. See `input_requests.Form`."""
        found: Elicited = await self._ask_one(Form(message, schema), key)
        return found

    async def elicit_url(
        self, message: str, url: str, *, key: str | None = None, elicitation_id: str | None = None
    ) -> Elicited:
        """Ask the person to open an address. See `input_requests.Url`."""
        found: Elicited = await self._ask_one(self._address(message, url, elicitation_id), key)
        return found

    async def require_url(
        self, message: str, url: str, *, key: str | None = None, elicitation_id: str | None = None
    ) -> NoReturn:
        """End the call: a person must have been at an address before it can be made. See `ClientInput.require`."""
        request = self._address(message, url, elicitation_id)
        key = key or self._unused_key(request)
        self._keys.add(key)
        await self._parts.input.require({key: request})

    async def sample(
        self,
        messages: str | Iterable[dict[str, Json]],
        *,
        max_tokens: int = 1000,
        key: str | None = None,
        **options: Json,
    ) -> Sampled:
        """Ask the client's model. See `input_requests.Sample`."""
        found: Sampled = await self._ask_one(Sample(messages, max_tokens=max_tokens, **options), key)
        return found

    async def roots(self, *, key: str | None = None) -> list[Root]:
        """Ask which folders the client works in."""
        found: list[Root] = await self._ask_one(Roots(), key)
        return found

    def elicitation_id(self, name: str = "") -> str:
        """Return an id for an address that the person is to open: the same whenever this call runs again.

        `addresses.completed(id)` later notifies the client that the person is done there.
        """
        return self._parts.input.elicitation_id(name)

    async def elicitation_complete(self, elicitation_id: str) -> None:
        """Notify the client while the call still runs. Silent where its revision has no such notification."""
        await self._parts.notifier.elicitation_complete(elicitation_id)

    def _address(self, message: str, url: str, elicitation_id: str | None) -> Url:
        return Url(message, url, elicitation_id or self.elicitation_id(url))

    async def _ask_one(self, request: InputRequest, key: str | None) -> Any:
        key = key or self._unused_key(request)
        return (await self.ask({key: request}))[key]

    def _unused_key(self, request: InputRequest) -> str:
        number = 1
        while f"{request.kind}_{number}" in self._keys:
            number += 1
        return f"{request.kind}_{number}"
