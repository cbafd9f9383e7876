"""The page about calls that wait, in the stock admin of a host."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from invocations.redaction import load as redaction
from invocations.redaction.records import RecordRedaction
from mcphub.embedding.pages import READ_BODIES, HostPage
from mcphub.features.approvals import deciding
from sessions_app.history.source import ADMIN, edits_via

_APPROVAL = ("created_at", "tool_name", "caller_label", "status", "expires_at", "decided_by")


class ApprovalPages(HostPage):
    """Approved are calls as they were asked for; REST takes edited arguments and a reason."""

    bodies = ("arguments",)
    list_display = _APPROVAL
    list_filter = ["status"]
    search_fields = ["tool_name", "caller_label"]
    fields = [*_APPROVAL, "id", "principal", "effects", "words", "reason"]
    readonly_fields = ["shown_arguments"]
    actions = ["approve", "deny"]

    def has_decide_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("invocations.decide_mcpapproval")

    @admin.action(description=_("Approve"), permissions=["decide"])
    def approve(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._decide(request, queryset, is_yes=True)

    @admin.action(description=_("Deny"), permissions=["decide"])
    def deny(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._decide(request, queryset, is_yes=False)

    def _decide(self, request: HttpRequest, queryset: QuerySet[Any], *, is_yes: bool) -> None:
        if is_yes and not request.user.has_perm(READ_BODIES):
            raise PermissionDenied  # nobody approves arguments that they cannot read
        record = RecordRedaction(redaction.load())
        done = 0
        for row in queryset:
            try:
                with edits_via(ADMIN, request):
                    deciding.decide(row, deciding.Decision(approve=is_yes), deciding.decider_of(request.user), record)
                done += 1
            except deciding.DecisionRefused as refused:
                self.message_user(request, str(refused), messages.ERROR)
        self.message_user(request, _("Changed: %(count)d.") % {"count": done})
