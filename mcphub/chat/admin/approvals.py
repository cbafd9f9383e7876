"""The pages of calls that wait for a yes: an inbox where each is approved or denied, and what operators demand."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from invocations.admin.reading import HiddenBodies, RecordedReading, hidden_words
from invocations.redaction import load as redaction
from invocations.redaction.records import Record
from mcphub.chat import approvals
from mcphub.chat.admin.transcripts import page_of
from mcphub.chat.errors import ChatError
from mcphub.chat.models.responses import ChatApproval, ToolApproval
from sessions_app.history.events import actor_of
from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import detail_action, mark, moment, names_and_count
from sessions_app.kit.lists.filters import During, OneOf, Rows
from sessions_app.kit.shown import cell, json_block, mono
from sessions_app.protocol import json

_MARKS = {"pending": "wait", "approved": "good", "denied": "bad", "used": "off"}
_TOO_LATE = "expired"
_ASKED = moment("created_at", _("asked"))
_DECIDED = moment("decided_at", _("decided"))
_EXPIRES = moment("expires_at", _("expires"))


def _in_state(rows: Rows, state: str) -> Rows:
    """Give the calls in a state as the list shows it: what waited too long has expired."""
    now = timezone.now()
    if state == ChatApproval.Status.PENDING:
        return approvals.still_open(rows, now)
    if state == _TOO_LATE:
        return rows.filter(status=ChatApproval.Status.PENDING, expires_at__lte=now)
    return rows.filter(status=state)


_FILTERS = (
    OneOf(
        name="state",
        column="status",
        label=_("status"),
        parameter="state",
        choices=[*ChatApproval.Status.choices, (_TOO_LATE, _("Expired"))],
        narrowed=_in_state,
    ),
    During(name="created", column="created_at", label=""),
)


@admin.register(ChatApproval)
class ChatApprovalAdmin(RecordedReading):
    bodies = ("arguments",)
    body_columns: ClassVar[dict[str, str]] = {"shown_arguments": "arguments"}
    parts = (*RecordedReading.parts, HiddenBodies())
    list_before_template = "admin/hub/hidden_bodies.html"
    list_display = [_ASKED, "shown_status", "shown_tool", "shown_caller", "shown_arguments", _EXPIRES, "decided_by"]
    list_display_links = [_ASKED]
    filters = _FILTERS
    search_fields = ["=id", "=tool_name"]
    search_help_text = _("Id, or name of the tool")
    ordering = ["-created_at"]
    is_windowed = True
    indexed = ("status",)
    actions = ["approve", "deny"]
    actions_detail = ["approve_it", "deny_it"]

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        arguments = "all_arguments" if self.may_read(request) else "hidden_arguments"
        return [
            (None, {"fields": ["shown_status", "shown_tool", "tool_version"]}),
            (_t("Arguments"), {"fields": [arguments]}),
            (_t("Who"), {"fields": ["shown_caller", "needs_another", "decided_by", "reason"]}),
            (_t("When"), {"fields": [_ASKED, _DECIDED, _EXPIRES]}),
            (_t("Ids"), {"fields": ["id", "shown_turn", "shown_call"]}),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        return [name for _title, options in self.get_fieldsets(request, obj) for name in options["fields"]]

    def has_decide_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("chat.decide_chatapproval"))

    @admin.action(description=_("Approve the selected calls"), permissions=["decide"])
    def approve(self, request: HttpRequest, queryset: QuerySet[ChatApproval]) -> HttpResponse | None:
        return self._decide(request, queryset, approve=True)

    @admin.action(description=_("Deny the selected calls"), permissions=["decide"])
    def deny(self, request: HttpRequest, queryset: QuerySet[ChatApproval]) -> HttpResponse | None:
        return self._decide(request, queryset, approve=False)

    def has_decide_it_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        asked = ChatApproval.objects.filter(pk=object_id)
        return self.has_decide_permission(request) and approvals.still_open(asked, timezone.now()).exists()

    @detail_action(description=_("Approve"), permissions=["decide_it"], icon="check", url_path="approve")
    def approve_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._decide_one(request, object_id, approve=True)

    @detail_action(description=_("Deny"), permissions=["decide_it"], icon="close", url_path="deny")
    def deny_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._decide_one(request, object_id, approve=False)

    def _decide_one(self, request: HttpRequest, object_id: str, *, approve: bool) -> HttpResponse:
        back = reverse("admin:chat_chatapproval_change", args=[quote(object_id)])
        asked: HttpResponse | None = self._decide(
            request, ChatApproval.objects.filter(pk=object_id), approve=approve, back=back
        )
        return asked if asked is not None else redirect(back)

    def _decide(
        self, request: HttpRequest, queryset: QuerySet[ChatApproval], *, approve: bool, back: str = ""
    ) -> HttpResponse | None:
        waiting = approvals.still_open(queryset, timezone.now())
        items, count = names_and_count(waiting)
        if not count:
            messages.warning(request, _t("None of these calls waits any more."))
            return None
        asked = self.confirmation(
            request,
            items=items,
            back=back or request.get_full_path(),
            action="" if back else "approve" if approve else "deny",
            danger=not approve,
            reason=not approve,
            selected=[] if back else [row.pk for row in waiting],
            title=_t("Approve these calls?") if approve else _t("Deny these calls?"),
            explanation=_t("Each call may then be made once within ten minutes, with exactly these arguments.")
            if approve
            else _t("The model is told that the call was denied, with the reason."),
            button=_t("Approve") if approve else _t("Deny"),
        )
        if asked is not None:
            return asked
        done, record = 0, Record(redaction.load())
        for id_ in waiting.values_list("pk", flat=True):
            try:
                approvals.decide(
                    id_,
                    record,
                    approve=approve,
                    reason=request.POST.get("reason", ""),
                    by=str(request.user),
                    principal=None,
                    actor=actor_of(request.user).principal,
                )
                done += 1
            except ChatError as error:  # somebody else was first
                messages.warning(request, str(error))
        message = (
            ngettext("%(count)d call approved.", "%(count)d calls approved.", done)
            if approve
            else ngettext("%(count)d call denied.", "%(count)d calls denied.", done)
        )
        messages.success(request, message % {"count": done})
        return None

    @admin.display(description=_("status"))
    def shown_status(self, row: ChatApproval) -> SafeString:
        if row.status == ChatApproval.Status.PENDING and row.expires_at <= timezone.now():
            return mark("off", _("Expired"))
        return mark(_MARKS[row.status], row.get_status_display())

    @admin.display(description=_("tool"))
    def shown_tool(self, row: ChatApproval) -> SafeString:
        return mono(row.tool_name)

    @admin.display(description=_("caller"))
    def shown_caller(self, row: ChatApproval) -> SafeString:
        return cell(f"{row.caller_label} ({row.principal})")

    @admin.display(description=_("arguments"))
    def shown_arguments(self, row: ChatApproval) -> SafeString:
        return cell(json.dumps(row.arguments).decode())

    @admin.display(description=_("arguments"))
    def all_arguments(self, row: ChatApproval) -> SafeString:
        return json_block(row.arguments)

    @admin.display(description=_("arguments"))
    def hidden_arguments(self, row: ChatApproval) -> str:
        return hidden_words()

    @admin.display(description=_("question"))
    def shown_turn(self, row: ChatApproval) -> SafeString:
        address = page_of(row.turn_id)
        if not address:
            return mono(row.turn_id)
        return format_html('<a class="hub-link hub-mono" href="{}">{}</a>', address, row.turn_id)

    @admin.display(description=_("call"))
    def shown_call(self, row: ChatApproval) -> SafeString:
        return mono(row.call_id)


@admin.register(ToolApproval)
class ToolApprovalAdmin(RecordedAdmin):
    list_display = ["tool", "policy"]
    list_filter = ["policy"]
    search_fields = ["tool__name"]
    autocomplete_fields = ["tool"]

    def get_readonly_fields(self, request: HttpRequest, obj: ToolApproval | None = None) -> list[str]:
        # Moved to another tool, a policy would end for the first one without a second person.
        return ["tool"] if obj is not None else []

    def has_delete_permission(self, request: HttpRequest, obj: ToolApproval | None = None) -> bool:
        # Who may not loosen a policy alone must not remove it.
        return bool(request.user.is_superuser) and super().has_delete_permission(request, obj)
