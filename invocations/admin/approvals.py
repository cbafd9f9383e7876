"""The pages of calls that wait for a yes: an inbox where each is approved, edited or denied, and policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Model, Q, QuerySet
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
from invocations.approvals import asking, deciding
from invocations.approvals.models import McpApproval, McpToolApproval
from invocations.redaction import load as redaction
from invocations.redaction.records import Record
from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import detail_action, is_confirmed, mark, moment, names_and_count
from sessions_app.kit.admin.json_field import JSONEditor, JSONFormField
from sessions_app.kit.lists.filters import During, OneOf, Rows
from sessions_app.kit.shown import cell, clipped, json_block, mono
from sessions_app.protocol import json
from sessions_app.protocol.json import Json

_MARKS = {"pending": "wait", "approved": "good", "denied": "bad", "used": "off", "expired": "off"}
_TOO_LATE = McpApproval.Status.EXPIRED
_ASKED = moment("created_at", _("asked"))
_DECIDED = moment("decided_at", _("decided"))
_EXPIRES = moment("expires_at", _("expires"))


def _in_state(rows: Rows, state: str) -> Rows:
    """Give the calls in a state as the list shows it: what waited too long has expired."""
    now = timezone.now()
    if state == McpApproval.Status.PENDING:
        return asking.still_open(rows, now)
    if state == _TOO_LATE:
        overdue = Q(status=McpApproval.Status.PENDING, expires_at__lte=now)
        return rows.filter(overdue | Q(status=McpApproval.Status.EXPIRED))
    return rows.filter(status=state)


_FILTERS = (
    OneOf(
        name="state",
        column="status",
        label=_("status"),
        parameter="state",
        choices=McpApproval.Status.choices,
        narrowed=_in_state,
    ),
    During(name="created", column="created_at", label=""),
)


# An admin is one object for all requests, and the columns of its pages are given the row alone.
_reads_bodies: ContextVar[bool] = ContextVar("who asks may read bodies", default=False)


class _EditForm(forms.Form):
    arguments = JSONFormField(label=_("Arguments"), widget=JSONEditor({"rows": 12}))
    grant = forms.ChoiceField(
        label=_("Further calls"),
        required=False,
        choices=[
            ("", _("Each asks again")),
            ("hour", _("This caller may call this tool for an hour")),
            ("session", _("This caller may call this tool in this session, for an hour at most")),
        ],
    )

    def clean_arguments(self) -> dict[str, Json]:
        given = self.cleaned_data["arguments"]
        if not isinstance(given, dict):
            raise ValidationError(_("Write an object of arguments by name."))
        return given


def _changes(row: McpApproval) -> str:
    """Say in a line what differs from the last approved call."""
    changed, last = deciding.difference(row)
    if last is None:
        return _t("No call of this tool by this caller was approved yet.")
    if not isinstance(changed, dict) or not changed:
        return _t("As in the last approved call.")
    pairs = [f"{name}: {_short(old)} → {_short(new)}" for name, (old, new) in changed.items()]
    return clipped("; ".join(pairs), 1000)


def _short(value: Json) -> str:
    return "-" if value is None else clipped(json.dumps(value).decode(), 120)


@admin.register(McpApproval)
class McpApprovalAdmin(RecordedReading):
    bodies = ("arguments",)
    body_columns: ClassVar[dict[str, str]] = {"shown_arguments": "arguments"}
    parts = (*RecordedReading.parts, HiddenBodies())
    list_before_template = "admin/hub/hidden_bodies.html"
    list_display = [
        _ASKED,
        "shown_status",
        "shown_tool",
        "effects",
        "shown_caller",
        "shown_arguments",
        "rule",
        _EXPIRES,
    ]
    list_display_links = [_ASKED]
    filters = _FILTERS
    search_fields = ["=id", "=tool_name"]
    search_help_text = _("Id, or name of the tool")
    ordering = ["-created_at"]
    is_windowed = True
    indexed = ("status",)
    actions = ["approve", "deny"]
    actions_detail = ["approve_it", "edit_it", "deny_it"]

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        arguments = "all_arguments" if self.may_read(request) else "hidden_arguments"
        _reads_bodies.set(self.may_read(request))
        return [
            (None, {"fields": ["shown_status", "shown_tool", "tool_version", "effects"]}),
            (_t("Arguments"), {"fields": [arguments, "shown_edited", "shown_difference"]}),
            (_t("What asks"), {"fields": ["rule", "rule_version", "words", "decider", "group", "needed", "given"]}),
            (_t("Who"), {"fields": ["shown_caller", "transport", "client_name", "decided_by", "reason"]}),
            (_t("When"), {"fields": [_ASKED, _DECIDED, _EXPIRES, "granted_until"]}),
            (_t("Ids"), {"fields": ["id", "invocation_id", "shown_turn", "shown_call"]}),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        return [name for _title, options in self.get_fieldsets(request, obj) for name in options["fields"]]

    def has_decide_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("invocations.decide_mcpapproval"))

    @admin.action(description=_("Approve the selected calls"), permissions=["decide"])
    def approve(self, request: HttpRequest, queryset: QuerySet[McpApproval]) -> HttpResponse | None:
        return self._decide(request, queryset, approve=True)

    @admin.action(description=_("Deny the selected calls"), permissions=["decide"])
    def deny(self, request: HttpRequest, queryset: QuerySet[McpApproval]) -> HttpResponse | None:
        return self._decide(request, queryset, approve=False)

    def has_decide_it_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        asked = McpApproval.objects.filter(pk=object_id)
        return self.has_decide_permission(request) and asking.still_open(asked, timezone.now()).exists()

    @detail_action(description=_("Approve"), permissions=["decide_it"], icon="check", url_path="approve")
    def approve_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._decide_one(request, object_id, approve=True)

    @detail_action(description=_("Deny"), permissions=["decide_it"], icon="close", url_path="deny")
    def deny_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._decide_one(request, object_id, approve=False)

    @detail_action(description=_("Edit and approve"), permissions=["decide_it"], icon="edit", url_path="edit")
    def edit_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask for other arguments, or for how long the tool may be called; then approve."""
        row = McpApproval.objects.get(pk=object_id)
        back = reverse("admin:invocations_mcpapproval_change", args=[quote(object_id)])
        if not self.may_read(request):
            raise PermissionDenied
        form = _EditForm(request.POST if is_confirmed(request) else None, initial={"arguments": row.arguments})
        asked = self.confirmation(
            request,
            items=[(row.tool_name, row.caller_label)],
            back=back,
            form=form,
            title=_t("Approve this call as you edit it?"),
            explanation=_t("The call is made with the arguments below. Both versions are on record."),
            button=_t("Approve"),
        )
        if asked is not None:
            return asked
        edited = form.cleaned_data["arguments"]
        self._decide_rows(
            request,
            [row],
            deciding.Decision(
                approve=True,
                # What is hidden of the arguments reads the same when nobody touched it.
                arguments=None if json.canonical(edited) == json.canonical(row.arguments) else edited,
                grant=form.cleaned_data["grant"],
            ),
        )
        return redirect(back)

    def _remarks(self, request: HttpRequest) -> Callable[[list[McpApproval]], Mapping[Any, str]]:
        """Give what stands beside each call when it is asked for: who, and what differs from the last approved one."""
        reads = self.may_read(request)
        return lambda rows: {
            row.pk: f"{row.caller_label} · {_changes(row)}" if reads else row.caller_label for row in rows
        }

    def _decide_one(self, request: HttpRequest, object_id: str, *, approve: bool) -> HttpResponse:
        back = reverse("admin:invocations_mcpapproval_change", args=[quote(object_id)])
        asked: HttpResponse | None = self._decide(
            request, McpApproval.objects.filter(pk=object_id), approve=approve, back=back
        )
        return asked if asked is not None else redirect(back)

    def _decide(
        self, request: HttpRequest, queryset: QuerySet[McpApproval], *, approve: bool, back: str = ""
    ) -> HttpResponse | None:
        waiting = asking.still_open(queryset, timezone.now())
        items, count = names_and_count(waiting, remarks=self._remarks(request))
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
        decision = deciding.Decision(approve=approve, reason=request.POST.get("reason", ""))
        self._decide_rows(request, list(waiting), decision)
        return None

    def _decide_rows(self, request: HttpRequest, rows: list[McpApproval], decision: deciding.Decision) -> None:
        done, record, who = 0, Record(redaction.load()), deciding.decider_of(request.user)
        for row in rows:
            try:
                deciding.decide(row, decision, who, record)
                done += 1
            except deciding.DecisionRefused as error:  # somebody else was first, or it takes another
                messages.warning(request, str(error))
        message = (
            ngettext("%(count)d call approved.", "%(count)d calls approved.", done)
            if decision.approve
            else ngettext("%(count)d call denied.", "%(count)d calls denied.", done)
        )
        if done:
            messages.success(request, message % {"count": done})

    @admin.display(description=_("status"))
    def shown_status(self, row: McpApproval) -> SafeString:
        if row.status == McpApproval.Status.PENDING and row.expires_at <= timezone.now():
            return mark("off", _("Expired"))
        return mark(_MARKS[row.status], row.get_status_display())

    @admin.display(description=_("tool"))
    def shown_tool(self, row: McpApproval) -> SafeString:
        return mono(row.tool_name)

    @admin.display(description=_("caller"))
    def shown_caller(self, row: McpApproval) -> SafeString:
        return cell(f"{row.caller_label} ({row.principal})")

    @admin.display(description=_("arguments"))
    def shown_arguments(self, row: McpApproval) -> SafeString:
        return cell(json.dumps(row.arguments).decode())

    @admin.display(description=_("arguments"))
    def all_arguments(self, row: McpApproval) -> SafeString:
        return json_block(row.arguments)

    @admin.display(description=_("arguments"))
    def hidden_arguments(self, row: McpApproval) -> str:
        return hidden_words()

    @admin.display(description=_("edited arguments"))
    def shown_edited(self, row: McpApproval) -> SafeString | str:
        if row.edited is None:
            return "-"
        return json_block(row.edited) if _reads_bodies.get() else hidden_words()

    @admin.display(description=_("difference to the last approved call"))
    def shown_difference(self, row: McpApproval) -> SafeString | str:
        return cell(_changes(row)) if _reads_bodies.get() else hidden_words()

    @admin.display(description=_("question"))
    def shown_turn(self, row: McpApproval) -> SafeString | str:
        if not row.turn_id:
            return "-"
        address = reverse("admin:chat_query_change", args=[row.turn_id])
        return format_html('<a class="hub-link hub-mono" href="{}">{}</a>', address, row.turn_id)

    @admin.display(description=_("call"))
    def shown_call(self, row: McpApproval) -> SafeString:
        return mono(row.call_id)


@admin.register(McpToolApproval)
class McpToolApprovalAdmin(RecordedAdmin):
    list_display = ["tool", "policy"]
    list_filter = ["policy"]
    search_fields = ["tool__name"]
    autocomplete_fields = ["tool"]

    def get_readonly_fields(self, request: HttpRequest, obj: McpToolApproval | None = None) -> list[str]:
        # Moved to another tool, a policy would end for the first one without a second person.
        return ["tool"] if obj is not None else []

    def has_delete_permission(self, request: HttpRequest, obj: McpToolApproval | None = None) -> bool:
        # Who may not loosen a policy alone must not remove it.
        return bool(request.user.is_superuser) and super().has_delete_permission(request, obj)
