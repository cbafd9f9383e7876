"""The hub's own contract beside OpenAI's wire: sessions, tools and health; the query itself is in query.py.

Errors have REST's shape, with the codes of `errors.ERROR_CODES`.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote

from django.conf import settings
from django.utils import timezone

from mcphub.features.chat import query_requests
from mcphub.features.chat.endpoints.base import ChatEndpoint
from mcphub.features.chat.engine import tool_selection
from mcphub.features.chat.errors import ChatError, invalid
from mcphub.features.chat.models.conversations import ChatMessage, ChatSession
from mcphub.features.chat.queries import moment
from sessions_app.kit.rest.errors import PROBLEM, problem
from sessions_app.protocol.json import Json
from tools_catalog.upstream.states import LinkState


class OwnApiEndpoint(ChatEndpoint):
    """An endpoint with errors in REST's form."""

    error_event = "error"
    error_kind = PROBLEM.encode()

    def error_body(self, error: ChatError) -> dict[str, Json]:
        details = {**({"param": error.param} if error.param else {}), **error.details}
        return problem(
            error.http_status,
            error.code,
            error.message,
            details,
            error.should_retry,
            jsonrpc_code=error.jsonrpc_code,
            invocation_id=error.invocation_id or None,
        )

    def parameters(self, *known: str) -> dict[str, str]:
        """Return the query's parameters; raise ChatError for one that is not known, or comes twice."""
        pairs = parse_qsl(self.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(pairs)
        for name in given:
            if name not in known:
                raise invalid(name[:60], f"{name[:60]!r} is not known here. Known: {', '.join(known) or 'nothing'}.")
        if len(given) != len(pairs):
            raise ChatError("INVALID_QUERY", "A parameter comes twice. Send it once.")
        return given


class SessionsEndpoint(OwnApiEndpoint):
    """`POST /api/session`."""

    async def answer(self) -> None:
        body = await self.read_object()
        opening = query_requests.read_session(body, self.chat.providers.providers)
        session = await self.chat.conversations.open(
            self.caller,
            preference=opening.provider_preference,
            max_messages=opening.max_messages,
            context=opening.context,
        )
        await self.respond_json(session_wire(session, []), status=201)


class SessionEndpoint(OwnApiEndpoint):
    """`GET` and `DELETE /api/session/{id}`."""

    allowed_methods = ("GET", "DELETE")

    async def answer(self) -> None:
        session_id = unquote(self.scope["path"].rstrip("/").rpartition("/")[2])
        if self.scope["method"] == "DELETE":
            await self.chat.conversations.close(self.caller, session_id)
            await self.respond(204, b"", self.own_headers())
            return
        session, messages = await self.chat.conversations.find(self.caller, session_id)
        await self.respond_json(session_wire(session, messages))


class ToolsEndpoint(OwnApiEndpoint):
    """`GET /api/tools?transport=`: the tools available to a query."""

    allowed_methods = ("GET",)
    scope_needed = "tools:list"

    async def answer(self) -> None:
        wanted = query_requests.read_transport(self.parameters("transport").get("transport"))
        stages, configuration = self.hub.calls.stages, self.hub.configuration
        catalog = configuration.catalog
        transport_of = query_requests.transports_of(catalog)
        found = []
        for tool in tool_selection.usable(catalog, self.caller):
            transport = transport_of(tool)
            if wanted in (None, transport):
                definition = stages.shown(tool, self.caller, configuration)
                found.append(
                    {
                        "name": tool.name,
                        "title": definition.get("title"),
                        "description": definition["description"],
                        "input_schema": definition["inputSchema"],
                        "output_schema": definition.get("outputSchema"),
                        "transport": transport,
                        "connection": tool.connection,
                    }
                )
        await self.respond_json({"count": len(found), "tools": found})


HEALTHY, DEGRADED, UNHEALTHY, UNCONFIGURED = "healthy", "degraded", "unhealthy", "not_configured"


class HealthEndpoint(OwnApiEndpoint):
    """`GET /api/health`: each part and how it is; 503 where queries cannot be answered."""

    allowed_methods = ("GET", "HEAD")
    needs_caller = False

    async def answer(self) -> None:
        self.parameters()
        components = {name: _part(state) for name, state in (await self.hub.health()).items()}
        components |= {"providers": self._providers(), "connections": self._connections()}
        states = {part["status"] for part in components.values()}
        overall = UNHEALTHY if UNHEALTHY in states else DEGRADED if DEGRADED in states else HEALTHY
        body = {
            "status": overall,
            "version": settings.MCPHUB_VERSION,
            "timestamp": moment(timezone.now()),
            "components": components,
        }
        await self.respond_json(body, status=503 if overall == UNHEALTHY else 200)

    def _providers(self) -> dict[str, str]:
        providers = self.chat.providers.providers.values()
        if not providers:
            return _component(UNCONFIGURED, "No model is set up. Add a provider in the admin.")
        resting = sum(self.chat.client.breaker(provider).is_open for provider in providers)
        state = HEALTHY if not resting else UNHEALTHY if resting == len(providers) else DEGRADED
        return _component(state, f"{len(providers) - resting} of {len(providers)} answer")

    def _connections(self) -> dict[str, str]:
        """Strangers may ask, so connections are counted, not named."""
        links = [link for link in self.hub.upstreams.links() if link.status != LinkState.DISCONNECTED]
        failing = sum(link.status == LinkState.ERROR for link in links)
        if not self.hub.configuration.catalog.upstreams.specs:
            return _component(UNCONFIGURED, "There are no connections.")
        return _component(DEGRADED if failing else HEALTHY, f"{failing} of {len(links)} in use do not work")


def _part(state: str) -> dict[str, str]:
    if state == "ok":
        return _component(HEALTHY, "")
    return _component(HEALTHY if state.startswith("not promised") else UNHEALTHY, state)


def _component(status: str, detail: str) -> dict[str, str]:
    return {"status": status, "detail": detail}


def session_wire(session: ChatSession, messages: list[ChatMessage]) -> dict[str, Json]:
    """Return a session as the contract describes it."""
    return {
        "id": str(session.id),
        "created_at": moment(session.created_at),
        "updated_at": moment(session.updated_at),
        "expires_at": moment(session.expires_at),
        "max_messages": session.max_messages,
        "provider_preference": session.provider_preference or None,
        "context": session.given_context(),
        "messages": [
            {
                "role": message.role,
                "content": content,
                "tool_calls": calls,
                "tool_call_id": message.tool_call_id or None,
                "error_code": message.error_code or None,
            }
            for message in messages
            for content, calls in [message.said()]
        ],
    }
