"""Seed 003's own contract beside OpenAI's wire: sessions, tools and health; the question itself is in query_door.py.

Errors have REST's shape, with the seed's error states as codes.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote

from django.conf import settings
from django.utils import timezone

from mcphub.chat import questions, selection, service
from mcphub.chat.answering import moment
from mcphub.chat.door import ChatDoor
from mcphub.chat.errors import ChatError
from mcphub.chat.models_conversations import ChatMessage, ChatSession
from tools_catalog.upstream.states import LinkState


class ContractDoor(ChatDoor):
    """A door whose errors are told as REST tells them."""

    scope_needed = "chat"
    error_event = "error"

    async def handle(self) -> None:
        self.chat = await service.of(self.hub)
        try:
            self.caller.need(self.scope_needed)
            await self.answer()
        except ChatError as error:
            await self.fail(error)

    def error_body(self, error: ChatError) -> dict[str, Any]:
        details = {**({"param": error.param} if error.param else {}), **error.details}
        return {
            "error": {
                "code": error.code, "message": error.message, "details": details, "retryable": error.should_retry,
                "jsonrpc_code": error.jsonrpc_code, "invocation_id": error.invocation_id or None,
            }
        }  # fmt: skip

    def parameters(self, *known: str) -> dict[str, str]:
        """Give the query's parameters; raise ChatError for one that is not known, or comes twice."""
        pairs = parse_qsl(self.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(pairs)
        for name in given:
            if name not in known:
                raise ChatError(
                    "INVALID_QUERY", f"{name[:60]!r} is not known here. Known: {', '.join(known) or 'nothing'}.",
                    param=name[:60],
                )  # fmt: skip
        if len(given) != len(pairs):
            raise ChatError("INVALID_QUERY", "A parameter comes twice. Send it once.")
        return given


class NewSession(ContractDoor):
    """`POST /api/session`."""

    async def answer(self) -> None:
        body = await self.read_object()
        opening = questions.read_opening(body, self.chat.providers().providers)
        session = await self.chat.talks.open(
            self.caller, preference=opening.provider_preference, max_messages=opening.max_messages,
            context=opening.context,
        )  # fmt: skip
        await self.give(session_wire(session, []), status=201)


class Session(ContractDoor):
    """`GET` and `DELETE /api/session/{id}`."""

    allowed_methods = ("GET", "DELETE")

    async def answer(self) -> None:
        session_id = unquote(self.scope["path"].rstrip("/").rpartition("/")[2])
        if self.scope["method"] == "DELETE":
            await self.chat.talks.close(self.caller, session_id)
            await self.respond(204, b"", self.own_headers())
            return
        session, messages = await self.chat.talks.find(self.caller, session_id)
        await self.give(session_wire(session, messages))


class Tools(ContractDoor):
    """`GET /api/tools?transport=`: what a question may use."""

    allowed_methods = ("GET",)
    scope_needed = "tools:list"

    async def answer(self) -> None:
        wanted = questions.read_transport(self.parameters("transport").get("transport"))
        catalog = self.hub.catalog()
        transport_of = questions.transports_of(catalog)
        found = []
        for tool in selection.usable(catalog, self.caller):
            transport = transport_of(tool)
            if wanted in (None, transport):
                definition = tool.definition
                found.append(
                    {
                        "name": tool.name, "title": definition.get("title"), "description": definition["description"],
                        "input_schema": definition["inputSchema"], "output_schema": definition.get("outputSchema"),
                        "transport": transport, "connection": tool.connection,
                    }
                )  # fmt: skip
        await self.give({"count": len(found), "tools": found})


HEALTHY, DEGRADED, UNHEALTHY, UNCONFIGURED = "healthy", "degraded", "unhealthy", "not_configured"


class Health(ContractDoor):
    """`GET /api/health`: each part and how it is; 503 where questions cannot be answered."""

    allowed_methods = ("GET", "HEAD")
    needs_caller = False

    async def handle(self) -> None:
        self.chat = await service.of(self.hub)
        try:
            self.parameters()
            components = {name: _part(state) for name, state in (await self.hub.health()).items()}
            components |= {"providers": self._providers(), "connections": self._connections()}
            states = {part["status"] for part in components.values()}
            overall = UNHEALTHY if UNHEALTHY in states else DEGRADED if DEGRADED in states else HEALTHY
            body = {
                "status": overall, "version": settings.MCPHUB_VERSION, "timestamp": moment(timezone.now()),
                "components": components,
            }  # fmt: skip
            await self.give(body, status=503 if overall == UNHEALTHY else 200)
        except ChatError as error:
            await self.fail(error)

    def _providers(self) -> dict[str, str]:
        providers = self.chat.providers().providers.values()
        if not providers:
            return _said(UNCONFIGURED, "No model is set up. Add a provider in the admin.")
        resting = sum(self.chat.client.breaker(provider).is_open for provider in providers)
        state = HEALTHY if not resting else UNHEALTHY if resting == len(providers) else DEGRADED
        return _said(state, f"{len(providers) - resting} of {len(providers)} answer")

    def _connections(self) -> dict[str, str]:
        """Strangers may ask, so connections are counted, not named."""
        links = [link for link in self.hub.upstreams.links() if link.status != LinkState.DISCONNECTED]
        failing = sum(link.status == LinkState.ERROR for link in links)
        if not self.hub.catalog().upstreams.specs:
            return _said(UNCONFIGURED, "There are no connections.")
        return _said(DEGRADED if failing else HEALTHY, f"{failing} of {len(links)} in use do not work")


def _part(state: str) -> dict[str, str]:
    if state == "ok":
        return _said(HEALTHY, "")
    return _said(HEALTHY if state.startswith("not promised") else UNHEALTHY, state)


def _said(status: str, detail: str) -> dict[str, str]:
    return {"status": status, "detail": detail}


def session_wire(session: ChatSession, messages: list[ChatMessage]) -> dict[str, Any]:
    """Give a session as seed 003 describes it."""
    return {
        "id": str(session.id), "created_at": moment(session.created_at), "updated_at": moment(session.updated_at),
        "expires_at": moment(session.expires_at), "max_messages": session.max_messages,
        "provider_preference": session.provider_preference or None, "context": session.context,
        "messages": [
            {
                "role": message.role, "content": message.content, "tool_calls": message.tool_calls,
                "tool_call_id": message.tool_call_id or None,
            }
            for message in messages
        ],
    }  # fmt: skip
