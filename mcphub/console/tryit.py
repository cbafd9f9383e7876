"""The page that makes a real call of a tool as the logged-in person, by `call_tool`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from invocations.exchange import CallRequest
from invocations.models import McpToolInvocation
from mcphub import content_security
from mcphub.console.shown_views import companions
from mcphub.console.trying import PERMISSION, exchange_of
from mcphub.console.tryit_form import form_for
from mcphub.process import runtime
from sessions_app.caller import Caller, caller_of
from sessions_app.kit.admin.base import mark
from sessions_app.kit.shown import INLINE_CHARACTERS, pretty, visible
from sessions_app.protocol import json, mcp_apps
from sessions_app.protocol.errors import HubError
from sessions_app.protocol.json import Json
from tools_catalog.models import McpToolDefinition
from tools_catalog.models.ruled import definition_of

_LONGEST_SHOWN = 1_000_000
"""Characters of a result that a view is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedCall:
    invocation_id: str
    is_error: bool
    words: list[str]
    """Texts of the result, or the sentence of the failure."""
    whole: str
    """The result as JSON; empty for a call that was refused."""
    code: str = ""
    wire: dict[str, Json] | None = None
    """The result, for the tool's view; None where it is too long for one, or there is none."""


def try_view(request: HttpRequest, pk: int) -> HttpResponse:
    if not request.user.has_perm(PERMISSION):
        raise PermissionDenied
    tool = get_object_or_404(McpToolDefinition, pk=pk)
    answer: TriedCall | None = None
    arguments: dict[str, Any] | None = None
    must_agree = tool.destructive and not tool.read_only
    agreed = "agreed" in request.POST
    form = form_for(tool.input_schema, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid() and (agreed or not must_agree):
        arguments = form.arguments()
        answer = async_to_sync(_call)(caller_of(request.user), tool.name, arguments)
    row = None
    if answer is not None and answer.invocation_id:
        row = (
            McpToolInvocation.objects.defer("arguments", "result", "error")
            .filter(invocation_id=answer.invocation_id)
            .first()
        )
    view = _view(tool, answer, arguments)
    context = {
        **admin.site.each_context(request),
        "opts": McpToolDefinition._meta,
        "object": tool,
        "title": _("Try it"),
        "tool": tool,
        "description": visible(tool.description),
        "form": form,
        "must_agree": must_agree,
        "agreed": agreed,
        "not_agreed": request.method == "POST" and must_agree and not agreed,
        "answer": answer,
        "mark": answer and (mark("bad", _("Error")) if answer.is_error else mark("good", _("OK"))),
        "arguments": None if arguments is None else pretty(arguments),
        "row": row,
        "view": view,
        "view_calls": view and _companions(tool.name),
        "view_uri": view and visible(mcp_apps.view_of(tool.meta), one_line=True),
        "row_link": row
        and request.user.has_perm("invocations.view_mcptoolinvocation")
        and reverse("admin:invocations_mcptoolinvocation_change", args=[row.pk]),
        "back": reverse("admin:tools_catalog_mcptooldefinition_change", args=[pk]),
    }
    response = TemplateResponse(request, "admin/hub/try.html", context)
    if view is not None:
        response.headers["Content-Security-Policy"] = content_security.WITH_FRAME
    return response


def _view(
    tool: McpToolDefinition, answer: TriedCall | None, arguments: dict[str, Json] | None
) -> dict[str, Json] | None:
    """Return the facts about the call for the script of a tool's view; None without a view."""
    if answer is None or answer.wire is None or not mcp_apps.view_of(tool.meta):
        return None
    return {
        "tool": definition_of(tool),
        "arguments": arguments or {},
        "result": answer.wire,
        "page": reverse("tool_view", args=[tool.pk]),
        "asked": reverse("tool_view_asked", args=[tool.pk]),
        "language": get_language() or "en",
    }


def _companions(name: str) -> list[str]:
    """Return the names of the tools that the view of a tool may call."""
    hub = runtime.current()
    tools = hub.configuration.catalog.tools if hub is not None else {}
    shown = tools.get(name)
    return [] if shown is None else [visible(each.name) for each in companions(tools.values(), shown)]


async def _call(caller: Caller, name: str, arguments: dict[str, Json]) -> TriedCall:
    exchange, hub = await exchange_of(caller)
    try:
        result = await hub.calls.call_tool(CallRequest(name=name, arguments=arguments), exchange)
    except HubError as error:
        return TriedCall(
            invocation_id=error.invocation_id, is_error=True, words=[visible(error)], whole="", code=error.code
        )
    blocks = result.wire.get("content", [])
    return TriedCall(
        invocation_id=result.invocation_id,
        is_error=result.is_error,
        words=[visible(block.get("text", "")[:INLINE_CHARACTERS]) for block in blocks if block.get("type") == "text"],
        whole=pretty(result.wire)[:INLINE_CHARACTERS],
        wire=result.wire if len(json.dumps(result.wire)) <= _LONGEST_SHOWN else None,
    )


urlpatterns = [path("tools_catalog/mcptooldefinition/<int:pk>/try/", admin.site.admin_view(try_view), name="tool_try")]
