"""The page that makes a recorded call again, by the plan that REST makes it by (`mcphub.features.replay.rest`)."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.translation import gettext as _

from invocations.calling import IDEMPOTENCY_KEY
from invocations.models import McpToolInvocation
from invocations.rest import reads
from mcphub.features.replay import rules as replay
from mcphub.features.replay.rest import PERMISSION, ReplayPlan, replayed
from sessions_app import transports
from sessions_app.caller import caller_of
from sessions_app.kit.admin.difference import difference
from sessions_app.kit.shown import clipped, visible
from sessions_app.protocol.errors import HubError
from tools_catalog.models import McpToolVersion


def replay_view(request: HttpRequest, pk: int) -> HttpResponse:
    """Choose a version, see whether it takes the arguments, and make the call; then both outcomes side by side."""
    may = request.user.has_perm("invocations.view_mcptoolinvocation") and request.user.has_perm(
        "invocations.read_bodies"
    )
    if not may:
        raise PermissionDenied
    row = get_object_or_404(McpToolInvocation, pk=pk)
    versions = list(McpToolVersion.objects.filter(tool__name=row.tool_name).values_list("version", flat=True)[:500])
    recorded = row.tool_version if row.tool_version in versions or not versions else versions[0]
    version = request.POST.get("version") or recorded
    agreed = "agreed" in request.POST
    once = request.POST.get("once", "")
    if not IDEMPOTENCY_KEY.fullmatch(once):
        once = _once()
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "opts": McpToolInvocation._meta,
        "object": row,
        "title": _("Replay"),
        "row": row,
        "tool_name": clipped(row.tool_name, 64),
        "versions": versions,
        "version": version,
        "agreed": agreed,
        "once": once,
        "back": reverse("admin:invocations_mcptoolinvocation_change", args=[row.pk]),
    }
    try:
        plan = ReplayPlan(row, caller_of(request.user), version)
        context["violations"] = [f"{each['path']} {each['message']}" for each in plan.violations()]
        context["is_read_only"] = plan.tool.read_only
        context["may_make"] = plan.tool.read_only or request.user.has_perm(PERMISSION)
        reads.note(request.user, "/admin/replay", ["arguments", "result", "error"], [row.pk], row.invocation_id)
        if request.method == "POST" and "make" in request.POST:
            if not context["may_make"]:
                raise PermissionDenied
            context["not_agreed"] = not plan.tool.read_only and not agreed
            made = None if context["not_agreed"] else plan.make(transports.ADMIN.name, context["once"])
            if made is not None:
                comparison = replayed(plan, made, [], False)
                context |= {"made": made, "same": comparison["same"], "once": _once()}
                context["made_link"] = reverse("admin:invocations_mcptoolinvocation_change", args=[made.pk])
                if comparison["same"] is False:
                    context["fields"] = difference(replay.outcome(row), replay.outcome(made))
    except HubError as error:
        context["refusal"] = visible(error)
    return TemplateResponse(request, "admin/hub/replay.html", context)


def _once() -> str:
    """Return the idempotency key of a form, so that a form that is sent twice makes one call."""
    return f"replay:{uuid.uuid4()}"


urlpatterns = [
    path("invocations/mcptoolinvocation/<int:pk>/replay/", admin.site.admin_view(replay_view), name="invocation_replay")
]
