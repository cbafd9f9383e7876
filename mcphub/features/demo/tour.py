"""The tour of a demo: six stops on the overview, while the hub serves what `mcphub demo` made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from mcphub.features.chat.models import ChatSession
from mcphub.features.demo.serving import MARK_FILE
from mcphub.features.error_groups.models import ErrorGroup
from tools_catalog.models import McpUpstreamTool


@dataclass(frozen=True, slots=True)
class TourStop:
    title: str
    words: str
    icon: str
    link: str


def card(request: HttpRequest) -> dict[str, Any] | None:
    """Return the card of the tour, with the stops that the person may see; None outside a demo."""
    if not (settings.MCPHUB_DATA_DIR / MARK_FILE).is_file():
        return None
    stops = [stop for permission, stop in _stops() if request.user.has_perm(permission)]
    return {"template": "demo/tour.html", "stops": stops} if stops else None


def _page(rows: QuerySet[Any]) -> str:
    """Return the page of the first row; where none is left, the list."""
    name, row = f"admin:{rows.model._meta.app_label}_{rows.model._meta.model_name}", rows.first()
    return reverse(f"{name}_changelist") if row is None else reverse(f"{name}_change", args=[row.pk])


def _stops() -> list[tuple[str, TourStop]]:
    return [
        (
            "invocations.view_errorgroup",
            TourStop(
                _("An error that began yesterday"),
                _("The billing API stopped listing orders. See who is affected, since when, and the failed calls."),
                "report",
                _page(ErrorGroup.objects.filter(tool_name="billing.list_orders", error_code="upstream_error")),
            ),
        ),
        (
            "invocations.view_mcpapproval",
            TourStop(
                _("Refunds that wait for you"),
                _("A rule holds refunds over 100 EUR. Look at the arguments, then approve or deny."),
                "how_to_reg",
                reverse("admin:invocations_mcpapproval_changelist") + "?state=pending",
            ),
        ),
        (
            "tools_catalog.view_mcpupstreamtool",
            TourStop(
                _("A tool that changed behind your back"),
                _("The tracker’s search now asks for the whole conversation. The hub holds it back until you decide."),
                "move_to_inbox",
                _page(McpUpstreamTool.objects.filter(state="changed")),
            ),
        ),
        (
            "chat.view_chatsession",
            TourStop(
                _("A conversation with its calls"),
                _("A model called tools under the same rules. Each call is linked to its question."),
                "forum",
                _page(ChatSession.objects.filter(queries__response__isnull=False).order_by("created_at")),
            ),
        ),
        (
            "invocations.view_mcpquota",
            TourStop(
                _("A budget near its end"),
                _("The nightly report has used most of its calls for this month."),
                "data_usage",
                reverse("admin:invocations_mcpquota_usage_page"),
            ),
        ),
        (
            "invocations.view_auditblock",
            TourStop(
                _("Proof that nothing was changed"),
                _("Every call is sealed. Verify the newest blocks yourself."),
                "verified_user",
                reverse("admin:audit_integrity"),
            ),
        ),
    ]
