"""The first page of the admin: what happened in the last day, and what to do next where nothing has."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from invocations.models import McpToolInvocation
from sessions_app.admin_base import mark
from sessions_app.models import ApiKey, McpSession
from sessions_app.shown import clipped, duration
from tools_catalog.models import McpToolDefinition

_MOST_COUNTED = 10_000
"""Beyond this a tile says `10,000+`, so that the page costs the same on a busy hub."""
_LAST_CALLS = 10


def show(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add the tiles, the last calls and the next steps that the person may see."""
    may = request.user.has_perm
    tiles: list[dict[str, Any]] = []
    if may("invocations.view_mcptoolinvocation"):
        tiles += _calls()
        context["last_calls"] = _last_calls()
    if may("sessions_app.view_mcpsession"):
        tiles.append(
            _tile(
                _("Active sessions"),
                McpSession.objects.filter(state=McpSession.State.INITIALIZED).order_by(),
                "sessions_app_mcpsession",
                f"?state__exact={McpSession.State.INITIALIZED.value}",
            )
        )
    if may("tools_catalog.view_mcptooldefinition"):
        enabled = McpToolDefinition.objects.filter(enabled=True).order_by()
        tiles.append(_tile(_("Enabled tools"), enabled, "tools_catalog_mcptooldefinition", "?enabled__exact=1"))
    context["tiles"] = tiles
    context["steps"] = _steps(request)
    return context


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Give the side bar; what a person may not see is absent from it."""

    def item(title: str, icon: str, page: str) -> dict[str, Any]:
        app, _underscore, model = page.rpartition("_")
        return {
            "title": title,
            "icon": icon,
            "link": reverse(f"admin:{page}_changelist"),
            "may": request.user.has_perm(f"{app}.view_{model}"),
        }

    blocks: list[dict[str, Any]] = [
        {"items": [{"title": _("Overview"), "icon": "monitoring", "link": reverse("admin:index"), "may": True}]},
        {
            "title": _("Audit"),
            "items": [
                item(_("Invocations"), "receipt_long", "invocations_mcptoolinvocation"),
                item(_("Sessions"), "cable", "sessions_app_mcpsession"),
                item(_("Tasks"), "task_alt", "invocations_mcptask"),
                item(_("Request envelopes"), "drafts", "invocations_mcprequestenvelope"),
                item(_("Server processes"), "memory", "sessions_app_serverprocess"),
            ],
        },
        {
            "title": _("Evidence"),
            "items": [
                item(_("Events"), "history_edu", "invocations_auditevent"),
                item(_("Blocks"), "link", "invocations_auditblock"),
                item(_("Tombstones"), "delete_history", "invocations_audittombstone"),
                item(_("Legal holds"), "gavel", "invocations_audithold"),
                item(_("Retention"), "auto_delete", "invocations_auditpolicy"),
            ],
        },
        {
            "title": _("Catalogue"),
            "items": [
                item(_("Tools"), "build", "tools_catalog_mcptooldefinition"),
                item(_("Toolsets"), "category", "tools_catalog_mcptoolset"),
                item(_("Services"), "api", "tools_catalog_httpservice"),
                item(_("Connections"), "lan", "tools_catalog_mcpconnection"),
                item(_("Upstream tools"), "inbox", "tools_catalog_mcpupstreamtool"),
                item(_("Launch profiles"), "terminal", "tools_catalog_launchprofile"),
                item(_("Resources"), "description", "tools_catalog_mcpresource"),
                item(_("Prompts"), "chat", "tools_catalog_mcpprompt"),
                item(_("Error mappings"), "report", "invocations_mcperrormapping"),
                item(_("Secrets"), "lock", "tools_catalog_secret"),
            ],
        },
        {
            "title": _("Chat"),
            "items": [
                item(_("Approvals"), "how_to_reg", "chat_chatapproval"),
                item(_("Approval policies"), "rule", "chat_toolapproval"),
            ],
        },
        {
            "title": _("Access"),
            "items": [
                item(_("API keys"), "key", "sessions_app_apikey"),
                item(_("Users"), "person", "auth_user"),
                item(_("Groups"), "group", "auth_group"),
            ],
        },
    ]
    for block in blocks:
        block["items"] = [entry for entry in block["items"] if entry["may"]]
    return [block for block in blocks if block["items"]]


def _calls() -> list[dict[str, Any]]:
    day_ago = timezone.now() - timedelta(days=1)
    first = (
        McpToolInvocation.objects.filter(started_at__gte=day_ago)
        .order_by("started_at")
        .values_list("pk", flat=True)[:1]
    )
    # Rows are appended in time, so the day is a range of the key; the index of errors holds it too.
    since = next(iter(first), None)
    day = McpToolInvocation.objects.order_by("-id")
    day = day.filter(pk__gte=since) if since is not None else day.none()
    local = timezone.localtime(day_ago)
    window = f"?started_at_from_0={local:%Y-%m-%d}&started_at_from_1={local:%H:%M:%S}"
    return [
        _tile(_("Calls in 24 hours"), day, "invocations_mcptoolinvocation", window),
        _tile(
            _("Errors in 24 hours"), day.filter(status="error"), "invocations_mcptoolinvocation",
            f"{window}&status__exact=error",
        ),
    ]  # fmt: skip


def _tile(title: str, rows: QuerySet[Any], page: str, query: str) -> dict[str, Any]:
    count = rows.values("pk")[: _MOST_COUNTED + 1].count()
    return {
        "title": title,
        "count": min(count, _MOST_COUNTED),
        "more": count > _MOST_COUNTED,
        "link": reverse(f"admin:{page}_changelist") + query,
    }


def _last_calls() -> list[dict[str, Any]]:
    rows = McpToolInvocation.objects.defer("arguments", "result", "error").order_by("-id")[:_LAST_CALLS]
    return [
        {
            "row": row,
            "tool": clipped(row.tool_name, 48),
            "caller": clipped(row.caller_label or row.principal, 32),
            "client": clipped(row.client_name, 32) or "-",
            "took": duration(row.duration_ms),
            "status": mark("good" if row.status == "ok" else "bad", row.get_status_display()),
            "link": reverse("admin:invocations_mcptoolinvocation_change", args=[row.pk]),
        }
        for row in rows
    ]


def _steps(request: HttpRequest) -> list[tuple[str, str]]:
    """Give what is still to be done before the first call, each with the page where it is done."""
    if request.user.has_perm("invocations.view_mcptoolinvocation") and McpToolInvocation.objects.exists():
        return []
    steps = []
    if request.user.has_perm("tools_catalog.add_mcptooldefinition") and not McpToolDefinition.objects.exists():
        steps.append((_("Add a first tool"), reverse("admin:tools_catalog_mcptooldefinition_add")))
    if request.user.has_perm("sessions_app.add_apikey"):
        has_key = ApiKey.objects.filter(revoked_at__isnull=True).exists()
        words = (
            _("Make a key for another client")
            if has_key
            else _("Make an API key; its page shows ready client configurations")
        )
        steps.append((words, reverse("admin:sessions_app_apikey_add")))
    if request.user.has_perm("tools_catalog.try_mcptooldefinition") and McpToolDefinition.objects.exists():
        steps.append((_("Try a tool from its page"), reverse("admin:tools_catalog_mcptooldefinition_changelist")))
    return steps
