"""A tool's view (MCP Apps) beside a call that a person tries: the page of an upstream, in a frame without an origin.

The page is a document of its own, sandboxed by its policy: it has no origin, so it reads nothing of the console,
carries no cookies, and reaches only the hosts that its server declared (SEP-1865, sandbox). It sends requests to the
console's script as messages, and the script sends them here.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from asgiref.sync import async_to_sync
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import path
from django.utils.translation import gettext as _
from django.views.decorators.clickjacking import xframe_options_sameorigin

from invocations.call.context import CallContext
from invocations.exchange import CallExchange, CallRequest
from invocations.reading import Reading, ReadRequest
from invocations.subject import RESOURCES_READ, RowSubject
from mcphub.console.trying import PERMISSION, exchange_of
from sessions_app.caller import Caller, caller_of
from sessions_app.kit.shown import pretty, visible
from sessions_app.protocol import json, mcp_apps
from sessions_app.protocol.errors import (
    INVALID_PARAMS,
    HubError,
    InvalidParams,
    ResourceNotFound,
    ResultInvalid,
    ToolNotFound,
)
from sessions_app.protocol.json import Json
from tools_catalog.catalog.offers import OfferedResource
from tools_catalog.catalog.selection import Tool
from tools_catalog.models import McpToolDefinition

if TYPE_CHECKING:
    from mcphub.process.runtime import Hub

_MOST_BYTES: Final = 256 * 1024
"""Of one request of a view."""
_MOST_SOURCES: Final = 20
"""Of a kind that a view may name."""
_SOURCE: Final = re.compile(r"(https|wss)://(\*\.)?([a-z0-9-]+\.)+[a-z][a-z0-9-]*(:\d{1,5})?", re.IGNORECASE)
"""A host by name: a browser must not be led to addresses within the viewer's network."""
_SANDBOX: Final = "sandbox allow-scripts allow-forms"


@xframe_options_sameorigin
def document(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the page of a tool's view, for a frame."""
    tool = _tool(request, pk)
    if request.headers.get("Sec-Fetch-Dest", "iframe") != "iframe":
        return _words(_("A view appears on the page that calls its tool."), 400)
    view = mcp_apps.view_of(tool.meta)
    if not view:
        return _words(_("The tool has no view."), 404)
    try:
        read = async_to_sync(_read)(caller_of(request.user), view, tool.workspace_id)
        page, meta = _page(read)
    except HubError as error:
        return _words(visible(error), 404)
    response = HttpResponse(page, content_type="text/html; charset=utf-8")
    response.headers["Content-Security-Policy"] = policy(meta.get("csp"))
    return _kept_apart(response)


def asked(request: HttpRequest, pk: int) -> HttpResponse:
    """Answer a view's request `{method, params, agreed}` with `{result}`, `{error}`, or `{asks}` if the person has to
    agree first.
    """
    tool = _tool(request, pk)
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    if len(request.body) > _MOST_BYTES:
        return JsonResponse(_error(_("The view requested more than the hub allows at once.")))
    try:
        message = json.loads(request.body)
        if not isinstance(message, dict) or not isinstance(message.get("params"), dict):
            raise InvalidParams("A view asks with a method and params, an object.")
        answer = async_to_sync(_answer)(caller_of(request.user), tool.name, message)
    except HubError as error:
        answer = _error(visible(error))
    return JsonResponse(answer)


def policy(declared: Json) -> str:
    """Return the content security policy of a view: the hosts that its server declared and browsers may be led to."""
    csp = declared if isinstance(declared, dict) else {}
    resources, connects, frames, bases = (
        sources(csp.get(name)) for name in ("resourceDomains", "connectDomains", "frameDomains", "baseUriDomains")
    )
    directives = {
        "default-src": ["'none'"],
        "script-src": ["'unsafe-inline'", *resources],
        "style-src": ["'unsafe-inline'", *resources],
        "img-src": ["data:", *resources],
        "font-src": ["data:", *resources],
        "media-src": ["data:", *resources],
        "connect-src": connects or ["'none'"],
        "frame-src": frames or ["'none'"],
        "object-src": ["'none'"],
        "base-uri": bases or ["'none'"],
        "form-action": ["'none'"],
        "frame-ancestors": ["'self'"],
    }
    return "; ".join([_SANDBOX, *(f"{name} {' '.join(words)}" for name, words in directives.items())])


def sources(named: Json) -> list[str]:
    """Return the sources of a list that a policy may name: hosts by their names, over TLS."""
    found = named if isinstance(named, list) else []
    return [each for each in found if isinstance(each, str) and _SOURCE.fullmatch(each)][:_MOST_SOURCES]


def _tool(request: HttpRequest, pk: int) -> McpToolDefinition:
    if not request.user.has_perm(PERMISSION):
        raise PermissionDenied
    return get_object_or_404(McpToolDefinition, pk=pk)


def _page(read: Mapping[str, Json]) -> tuple[str, Mapping[str, Json]]:
    """Return the HTML of a view and its `_meta.ui`. Raises ResultInvalid if it is not a view."""
    part: Any = next(iter(read["contents"]), None)
    if not isinstance(part, dict) or str(part.get("mimeType", "")).replace(" ", "") != mcp_apps.MIME_TYPE:
        raise ResultInvalid(f"The resource is no view: its media type is not {mcp_apps.MIME_TYPE}.")
    text = part.get("text")
    if not isinstance(text, str):
        try:
            text = base64.b64decode(part.get("blob", ""), validate=True).decode()
        except (binascii.Error, ValueError, TypeError) as error:
            raise ResultInvalid("The view is no text.") from error
    meta = part.get("_meta")
    ui = meta.get("ui") if isinstance(meta, dict) else read.get("ui")
    return text, ui if isinstance(ui, dict) else {}


async def _answer(caller: Caller, tool_name: str, message: Mapping[str, Json]) -> dict[str, Json]:
    exchange, hub = await exchange_of(caller)
    tool = exchange.configuration.catalog.find(tool_name, caller)
    params = message["params"]
    if message.get("method") == "resources/read":
        return {"result": await _read_for(exchange, hub, tool, params.get("uri"))}
    if message.get("method") != "tools/call":
        raise InvalidParams("A view may call tools and read resources, nothing else.")
    called = _called(exchange, tool, params.get("name"))
    called = exchange.configuration.catalog.find(called.name, caller)  # as whoever looks
    arguments = params.get("arguments", {})
    if not called.read_only and message.get("agreed") is not True:
        return {"asks": {"tool": called.name, "arguments": pretty(arguments)}}
    result = await hub.calls.call_tool(CallRequest(name=called.name, arguments=arguments), exchange)
    return {"result": result.wire}


def _called(exchange: CallExchange, shown: Tool, name: Json) -> Tool:
    """Return the tool that a view means, among its companions, by its name there or here."""
    for tool in companions(exchange.configuration.catalog.tools.values(), shown):
        if name in (tool.name, tool.upstream_name):
            return tool
    raise ToolNotFound(f"The view may call no tool {str(name)[:100]!r}.", tool=str(name)[:100])


def companions(tools: Iterable[Tool], shown: Tool) -> list[Tool]:
    """Return the tools that the view of a tool may call: those of its own server, or of the hub's own those that name
    the same view (SEP-1865, visibility). None belongs to another workspace, or is kept from somebody who sees the tool:
    a view does no more than the least of who wrote it and who looks.
    """
    view = mcp_apps.view_of(shown.definition.get("_meta"))
    return [
        tool
        for tool in tools
        if tool.connection == shown.connection
        and tool.is_for_views
        and tool.owner == shown.owner
        and (tool.connection is not None or tool.name == shown.name or _names_view(tool, view))
        and (not tool.groups or (shown.groups and shown.groups <= tool.groups))
    ]


def _names_view(tool: Tool, view: str) -> bool:
    return bool(view) and mcp_apps.view_of(tool.definition.get("_meta")) == view


async def _read(caller: Caller, uri: str, workspace: int | None) -> dict[str, Json]:
    """Read the page of a view for a tool of a workspace: one of another workspace is none of its."""
    exchange, hub = await exchange_of(caller)
    found = exchange.configuration.resources.find(uri, caller)
    owner = found[0].workspace if found is not None else None
    if owner is not None and owner.key != workspace:
        raise ResourceNotFound(uri, INVALID_PARAMS)
    return await _reading(exchange, hub, uri)


async def _read_for(exchange: CallExchange, hub: Hub, shown: Tool, uri: Json) -> dict[str, Json]:
    """Read for a view, at its own server alone."""
    if not isinstance(uri, str):
        raise InvalidParams("resources/read needs uri, the URI of a resource.")
    caller, resources = exchange.source.caller, exchange.configuration.resources
    for each in _names(uri, shown.connection):
        found = resources.find(each, caller)
        if found is not None and _is_read_by(found[0], shown):
            return await _reading(exchange, hub, each)
    raise ResourceNotFound(uri, INVALID_PARAMS)


def _is_read_by(resource: OfferedResource, shown: Tool) -> bool:
    """Return whether the view of a tool may read a resource: of its own server, or of the hub's own the view itself."""
    if resource.connection != shown.connection:
        return False
    return resource.connection is not None or resource.uri == mcp_apps.view_of(shown.definition.get("_meta"))


def _names(uri: str, connection: str | None) -> Iterable[str]:
    return (mcp_apps.apart(connection, uri), uri) if connection else (uri,)


async def _reading(exchange: CallExchange, hub: Hub, uri: str) -> dict[str, Json]:
    """Read a resource as clients do, with a row in the audit; return `{contents, ui}`, including its entry in the
    list.
    """

    def find() -> Reading:
        found = exchange.configuration.resources.find(uri, exchange.source.caller)
        if found is None:
            raise ResourceNotFound(uri, INVALID_PARAMS)
        resource, values = found
        subject = RowSubject(
            method=RESOURCES_READ,
            target=resource.uri,
            digest=resource.digest,
            connection=resource.connection,
            definition=resource.definition,
            workspace=resource.workspace,
        )
        meta = resource.definition.get("_meta")
        ui = meta.get("ui") if isinstance(meta, dict) else None

        async def work(context: CallContext) -> dict[str, Json]:
            return await resource.contents.read(uri, values, context)

        return Reading(
            subject=subject,
            label=f"The resource {resource.uri}",
            seconds=resource.timeout_seconds,
            is_static=resource.contents.is_static,
            work=work,
            answer=lambda result: {"contents": result["contents"], "ui": ui},
        )

    request = ReadRequest(method=RESOURCES_READ, scope="tools:call", asked=uri, arguments={"uri": uri}, find=find)
    answer = await hub.reads.read(request, exchange)
    assert isinstance(answer, dict)
    return answer


def _error(words: str) -> dict[str, Json]:
    return {"error": {"code": -32000, "message": words}}


def _words(words: str, status: int) -> HttpResponse:
    return _kept_apart(HttpResponse(words, content_type="text/plain; charset=utf-8", status=status))


def _kept_apart(response: HttpResponse) -> HttpResponse:
    response.headers.setdefault("Content-Security-Policy", policy(None))
    response.headers["Cache-Control"] = "no-store"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


urlpatterns = [
    path("tools_catalog/mcptooldefinition/<int:pk>/view/", admin.site.admin_view(document), name="tool_view"),
    path("tools_catalog/mcptooldefinition/<int:pk>/view/asked/", admin.site.admin_view(asked), name="tool_view_asked"),
]
