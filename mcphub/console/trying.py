"""The caller of a tool that a person tries in the console."""

from __future__ import annotations

from typing import TYPE_CHECKING

from invocations.call_source import CallSource
from invocations.exchange import CallExchange
from sessions_app import transports
from sessions_app.caller import Caller

if TYPE_CHECKING:
    from mcphub.process.runtime import Hub

PERMISSION = "tools_catalog.try_mcptooldefinition"
_CLIENT = "MCP Hub admin"


async def exchange_of(caller: Caller) -> tuple[CallExchange, Hub]:
    """Return the exchange of a call that a person makes in the console, and the hub of this process."""
    from mcphub.process import runtime

    hub = await runtime.ensure()
    session = await hub.sessions.implicit(
        caller, transport=transports.ADMIN.name, client_name=_CLIENT, client_version=""
    )
    source = CallSource(caller=caller, session_id=session, transport=transports.ADMIN.name, client_name=_CLIENT)
    return hub.calls.exchange(source), hub
