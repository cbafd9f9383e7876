"""The client of tests: the hub's own call path, whose records and tools stay on the connection of the test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync, sync_to_async

from invocations.call_source import CallSource
from invocations.calling import Calls
from invocations.configuration import Configuration
from invocations.exchange import CallExchange, CallRequest
from invocations.models import McpToolInvocation
from mcphub.embedding import own_tools
from mcphub.process import loading
from mcphub.testing.in_place import LedgerInPlace, ThreadsInPlace, connections_kept
from sessions_app.caller import ANONYMOUS, Caller, caller_of_key, person_of
from sessions_app.models import ApiKey
from sessions_app.protocol import revisions
from sessions_app.protocol.errors import HubError
from tools_catalog.backends import threads

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from sessions_app.protocol.json import Json

_TRANSPORT = "streamable-http"
_PROCESS = "0" * 32


class Failed(AssertionError):
    """A test read the data of a call that failed."""


@dataclass(frozen=True, slots=True)
class Result:
    """The end of one call. A refused call has one as well, and its row in the audit."""

    wire: dict[str, Json]
    """The CallToolResult that a client gets; empty where it gets an error of the protocol."""
    error_code: str = ""
    """Of the hub's errors, such as `execution_error` or `tool_not_found`; empty for a call that did well."""
    message: str = ""
    invocation_id: str = ""

    @property
    def is_error(self) -> bool:
        return bool(self.error_code)

    @property
    def text(self) -> str:
        """The text that a model reads."""
        blocks = self.wire.get("content", ())
        return "\n".join(block["text"] for block in blocks if block["type"] == "text") or self.message

    @property
    def data(self) -> Any:
        """The structured result; raises Failed for a call that failed."""
        if self.is_error:
            raise Failed(f"The call failed with {self.error_code}: {self.text}")
        return self.wire.get("structuredContent")

    @property
    def record(self) -> McpToolInvocation:
        """The row of the call in the audit."""
        return McpToolInvocation.objects.get(invocation_id=self.invocation_id)


@dataclass
class ToolClient:
    """Calls tools as a person, as the owner of a key, or as nobody.

    The first call brings the functions of the installed applications into the catalogue of the test database. Calls
    pass access control, rules, quotas, approvals and guardrails, and are recorded; all of it on the test's own
    connection, so that the test's transaction takes it back. No process runs: tools of other MCP servers cannot be
    called.
    """

    user: User | None = None
    key: ApiKey | None = None
    """The call is made with this key, whatever `user` is."""
    _is_ready: bool = field(default=False, init=False, repr=False)

    def call(self, name: str, /, **arguments: Json) -> Result:
        """Return the end of a call. Raises no error of the hub: the result names it."""
        with connections_kept():
            return async_to_sync(self._called)(name, arguments)

    async def acall(self, name: str, /, **arguments: Json) -> Result:
        """Return the end of a call, in an async test."""
        kept = connections_kept()
        await sync_to_async(kept.__enter__)()
        try:
            return await self._called(name, arguments)
        finally:
            await sync_to_async(kept.__exit__)(None, None, None)

    async def _called(self, name: str, arguments: dict[str, Json]) -> Result:
        configuration, caller = await sync_to_async(self._now)()
        ledger = LedgerInPlace()
        calls = Calls(ledger, _PROCESS, lambda: configuration)
        ledger.start()
        calls.start()
        try:
            with threads.replaced_by(ThreadsInPlace()):
                request = CallRequest(name=name, arguments=arguments)
                result = await calls.call_tool(request, self._exchange(configuration, caller))
        except HubError as error:
            return Result({}, error.code, error.message, error.invocation_id)
        finally:
            await calls.stop()
            await ledger.stop()
        return Result(result.wire, result.code, "", result.invocation_id)

    def tools(self) -> list[dict[str, Json]]:
        """Return the definitions of the tools that a client of this caller sees."""
        return async_to_sync(self.atools)()

    async def atools(self) -> list[dict[str, Json]]:
        """Return the definitions of the tools that a client of this caller sees, in an async test."""
        configuration, caller = await sync_to_async(self._now)()
        found = []
        for name in sorted(configuration.catalog.tools):
            try:
                found.append(dict(configuration.catalog.find(name, caller).definition))
            except HubError:  # hidden from the caller, or switched off
                continue
        return found

    def _now(self) -> tuple[Configuration, Caller]:
        """Read the configuration of this moment, and the rights of the caller."""
        if not self._is_ready:
            own_tools.load_own_tools()
            self._is_ready = True
        return loading.first_configuration(), self._caller()

    def _caller(self) -> Caller:
        if self.key is not None:
            return caller_of_key(self.key)
        return ANONYMOUS if self.user is None else person_of(self.user)

    @staticmethod
    def _exchange(configuration: Configuration, caller: Caller) -> CallExchange:
        source = CallSource(
            caller=caller,
            session_id="mcphub.testing",
            transport=_TRANSPORT,
            protocol_version=revisions.NEWEST,
            client_name="mcphub.testing",
        )
        return CallExchange(source=source, configuration=configuration)
