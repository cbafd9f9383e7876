"""The page of newly saved connections: each is tested, and its offers are approved."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _t
from django.utils.translation import ngettext

from mcphub.features.importers.admin.configured import rights, sharing
from mcphub.features.importers.configured.sources import MAX_SERVERS
from sessions_app.kit.admin.base import HubAdmin, mark
from sessions_app.kit.shown import clipped, pretty, visible
from tools_catalog.discovery import reconcile as discovery
from tools_catalog.discovery import trying
from tools_catalog.models import McpConnection, McpUpstreamTool
from tools_catalog.upstream import probe

TEST_AT_ONCE = "mcphub_test_at_once"
"""Name in a session of the connections just saved, as the page's address has them: the page tests them itself, once."""
_MOST_OFFERS = 200
"""On the page; the rest stands in the list of offers."""
_LONGEST_WORDS = 400
_LONGEST_NUMBER = 18


def imported_view(admin: HubAdmin, request: HttpRequest) -> HttpResponse:
    """Show the connections named in the address; test one or all, approve the selected offers, choose the access."""
    rights.check(request)
    rows = _rows(admin, request)
    if not rows:
        return redirect("admin:tools_catalog_mcpconnection_changelist")
    if request.method == "POST" and "approve" in request.POST:
        _approve(request, rows)
        return redirect(request.get_full_path())
    wrong = None
    if request.method == "POST" and "share" in request.POST:
        wrong = sharing.share(request, rows)
        if wrong is None:
            return redirect(request.get_full_path())
    tried: dict[int, trying.TriedConnection] = {}
    if request.method == "POST" and "test" in request.POST:
        wanted = request.POST["test"]
        found = trying.try_out([row for row in rows if row.enabled and wanted in ("all", str(row.pk))])
        tried = {each.connection.pk: each for each in found}
    return _page(admin, request, rows, tried, wrong)


def _rows(admin: HubAdmin, request: HttpRequest) -> list[McpConnection]:
    """Return the connections that the person may change, and so test."""
    ids = [each for each in request.GET.get("ids", "").split(",") if each.isdecimal() and len(each) <= _LONGEST_NUMBER]
    rows = McpConnection.objects.filter(pk__in=[int(each) for each in ids[:MAX_SERVERS]]).select_related("profile")
    served = Count("tools", filter=Q(tools__state=McpUpstreamTool.State.APPROVED))
    rows = rows.annotate(served_count=served).order_by("slug")
    return [row for row in rows if admin.has_change_permission(request, row)]


def _approve(request: HttpRequest, rows: list[McpConnection]) -> None:
    if not request.user.has_perm(rights.APPROVE):
        raise PermissionDenied
    chosen = set(request.POST.getlist("offer"))
    done = 0
    for offer in trying.waiting(rows):
        # Only what the page showed: what was listed anew meanwhile has another digest.
        if f"{offer.pk}:{offer.seen_digest}" not in chosen:
            continue
        try:
            discovery.approve(offer, author=request.user, reason=request.POST.get("reason", ""))
        except discovery.ApprovalRefused as error:
            words = f"{clipped(offer.upstream_name, 64)}: {visible(error, one_line=True)}"
            messages.error(request, words)
        else:
            done += 1
    message = ngettext("%(count)d definition approved.", "%(count)d definitions approved.", done)
    (messages.success if done else messages.warning)(request, message % {"count": done})


def _page(
    admin: HubAdmin,
    request: HttpRequest,
    rows: list[McpConnection],
    tried: dict[int, trying.TriedConnection],
    wrong: sharing.ShareForm | None,
) -> TemplateResponse:
    waiting = trying.waiting(rows)
    shared = sharing.shown(request, rows, wrong)
    inbox = reverse("admin:tools_catalog_mcpupstreamtool_changelist")
    ids = ",".join(str(row.pk) for row in rows)
    context = {
        **admin.admin_site.each_context(request),
        "opts": admin.opts,
        "title": _t("Paste and connect"),
        "step": 4 if shared is not None and not waiting else 3,
        "shared": shared,
        "rows": [_row(row, tried.get(row.pk)) for row in rows],
        "most": trying.MOST_AT_ONCE,
        "is_begun": request.session.pop(TEST_AT_ONCE, None) == request.GET.get("ids"),
        "offers": [_offer(offer) for offer in waiting[:_MOST_OFFERS]],
        "others": max(0, len(waiting) - _MOST_OFFERS),
        "inbox": f"{inbox}?connection__id__in={ids}&state__in=new,changed,refused",
        "may_approve": request.user.has_perm(rights.APPROVE),
        "back": reverse("admin:tools_catalog_mcpconnection_changelist"),
    }
    return TemplateResponse(request, "admin/hub/servers_tried.html", context)


def _row(row: McpConnection, tried: trying.TriedConnection | None) -> dict[str, object]:
    words = {probe.ADDRESS: _t("Address"), probe.CONNECT: _t("Connection"), probe.LIST: _t("List")}
    runs = [row.profile.command, *row.profile.arguments] if row.profile else []
    return {
        "pk": row.pk,
        "name": row.slug,
        "test": reverse("admin:connection_test", args=[row.pk]),
        "link": reverse("admin:tools_catalog_mcpconnection_change", args=[row.pk]),
        "reaches": visible(row.url, one_line=True),
        "runs": [visible(word, one_line=True) for word in runs],
        "is_off": not row.enabled,
        "served": getattr(row, "served_count", 0),
        "result": (mark("good", _t("OK")) if tried.is_good else mark("bad", _t("Failed"))) if tried else "",
        "steps": [
            {
                "mark": mark("good" if step.is_good else "bad", words[step.kind]),
                "outcome": visible(step.outcome),
                "is_good": step.is_good,
            }
            for step in (tried.steps if tried else ())
        ],
    }


def _offer(offer: McpUpstreamTool) -> dict[str, object]:
    words = offer.seen.get("description") if isinstance(offer.seen, dict) else ""
    return {
        "value": f"{offer.pk}:{offer.seen_digest}",
        "connection": offer.connection.slug,
        "kind": offer.get_kind_display(),
        "name": clipped(offer.name, 100),
        "words": clipped(words if isinstance(words, str) else "", _LONGEST_WORDS),
        "whole": pretty(offer.seen),
    }
