"""The pages of calls that wait for a yes: an inbox where each is approved, edited or denied, and policies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.timesince import timeuntil
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.widgets import UnfoldAdminSelectWidget

from invocations.admin.links import of_feature
from invocations.admin.reading import HiddenBodies, RecordedReading, hidden_words
from invocations.redaction import load as redaction
from invocations.redaction.records import RecordRedaction
from mcphub.features.approvals import asking, deciding
from mcphub.features.approvals.models import McpApproval, McpToolApproval
from sessions_app.history import deciding as waiting_changes
from sessions_app.history import guarding
from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import HubAdmin, detail_action, is_confirmed, mark, moment, names_and_count
from sessions_app.kit.admin.json_field import JSONEditor, JSONFormField
from sessions_app.kit.admin.parts import ListPart
from sessions_app.kit.admin.row_page import PagePart, PageWaiting, adds_to_page
from sessions_app.kit.lists.filters import During, OneOf
from sessions_app.kit.shown import cell, clipped, json_block, mono, visible
from sessions_app.models import ApiKey
from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from sessions_app.workspaces.pages import WorkspacePages
from tools_catalog.models import McpToolDefinition, McpUpstreamTool

_MARKS = {"pending": "wait", "approved": "good", "denied": "bad", "used": "off", "expired": "off"}
_MOST_COUNTED = 1000
_MOST_ON_PAGES = 10
_TOO_LATE = McpApproval.Status.EXPIRED
_ASKED = moment("created_at", _("requested"))
_DECIDED = moment("decided_at", _("decided"))
_EXPIRES = moment("expires_at", _("expires"))


def _in_state(state: str) -> Q:
    """Return the calls in a state as the list shows them: calls that waited too long have expired."""
    now = timezone.now()
    if state == McpApproval.Status.PENDING:
        return asking.is_open(now)
    if state == _TOO_LATE:
        return Q(status=McpApproval.Status.PENDING, expires_at__lte=now) | Q(status=McpApproval.Status.EXPIRED)
    return Q(status=state)


_FILTERS = (
    OneOf(
        name="state",
        column="status",
        label=_("status"),
        parameter="state",
        choices=McpApproval.Status.choices,
        meant=_in_state,
    ),
    During(name="created", column="created_at", label=""),
)


# An admin is one object for all requests, and the columns of its pages are given the row alone.
_reads_bodies: ContextVar[bool] = ContextVar("who asks may read bodies", default=False)
_decides: ContextVar[bool] = ContextVar("who asks may decide", default=False)


class AlsoWaiting(ListPart):
    """Lists other decisions that are waiting above the list: upstream offers, setting changes."""

    def context(self, page: HubAdmin, request: HttpRequest) -> dict[str, object]:
        may, found = request.user.has_perm, []
        if may("tools_catalog.view_mcpupstreamtool"):
            offers = McpUpstreamTool.objects.filter(state__in=["new", "changed"]).order_by().values_list("state")
            states = Counter(state for (state,) in offers[: _MOST_COUNTED + 1])
            link = reverse("admin:tools_catalog_mcpupstreamtool_changelist")
            found += [
                (_t("New upstream tools"), states["new"], f"{link}?state__in=new"),
                (_t("Changed definitions on hold"), states["changed"], f"{link}?state__in=changed"),
            ]
        if may(waiting_changes.PERMISSION):
            changes = guarding.seen_by(request.user).filter(state="waiting", expires_at__gt=timezone.now()).order_by()
            link = reverse("admin:sessions_app_waitingchange_changelist")
            count = changes[: _MOST_COUNTED + 1].count()
            found.append((_t("Changes waiting for a second person"), count, f"{link}?state=waiting"))
        return {"also_waiting": [(words, _shown(count), link) for words, count, link in found if count]}


def _shown(count: int) -> str:
    return f"{min(count, _MOST_COUNTED)}{'+' if count > _MOST_COUNTED else ''}"


class _EditForm(forms.Form):
    arguments = JSONFormField(label=_("Arguments"), widget=JSONEditor({"rows": 12}))
    grant = forms.ChoiceField(
        label=_("Later calls"),
        required=False,
        widget=UnfoldAdminSelectWidget,
        choices=[
            ("", _("Ask again each time")),
            ("hour", _("Allow this caller to call this tool for one hour")),
            ("session", _("Allow this caller to call this tool in this session, for one hour at most")),
        ],
    )

    def clean_arguments(self) -> dict[str, Json]:
        given = self.cleaned_data["arguments"]
        if not isinstance(given, dict):
            raise ValidationError(_("Enter a JSON object of arguments by name."))
        return given


def _is_waiting(row: McpApproval) -> bool:
    return row.status == McpApproval.Status.PENDING and row.expires_at > timezone.now()


def _changes(row: McpApproval) -> str:
    """Return the differences to the last approved call, in one line."""
    known = row.__dict__  # a page asks for a field more than once
    if "_difference" not in known:
        known["_difference"] = deciding.difference(row)
    changed, last = known["_difference"]
    if last is None:
        return _t("No call of this tool by this caller has been approved yet.")
    if not isinstance(changed, dict) or not changed:
        return _t("Same as in the last approved call.")
    pairs = [f"{name}: {_short(old)} → {_short(new)}" for name, (old, new) in changed.items()]
    return clipped("; ".join(pairs), 1000)


def _short(value: Json) -> str:
    return "-" if value is None else clipped(json.dumps(value).decode(), 120)


@admin.register(McpApproval)
class McpApprovalAdmin(WorkspacePages, RecordedReading):
    workspace_pages = ("changelist", "change", "approve_it", "edit_it", "deny_it")
    bodies = ("arguments",)
    body_columns: ClassVar[dict[str, str]] = {"shown_arguments": "arguments"}
    parts = (*RecordedReading.parts, HiddenBodies(), AlsoWaiting())
    list_before_template = "admin/hub/above_approvals.html"
    list_display = [_ASKED, "shown_status", "shown_call_of", "shown_caller", "shown_arguments", "rule", "shown_deeds"]
    list_display_links = [_ASKED]
    filters = _FILTERS
    search_fields = ["=id", "=tool_name"]
    search_help_text = _("ID or tool name")
    ordering = ["-created_at"]
    is_windowed = True
    indexed = ("status",)
    actions = ["approve", "deny"]
    actions_detail = ["approve_it", "edit_it", "deny_it"]

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        arguments = "all_arguments" if self.may_read(request) else "hidden_arguments"
        _reads_bodies.set(self.may_read(request))
        return [
            (None, {"fields": ["shown_status", "shown_tool", "tool_version", "shown_effects"]}),
            (_t("Arguments"), {"fields": [arguments, "shown_edited", "shown_difference"]}),
            (_t("Why it waits"), {"fields": ["rule", "rule_version", "words", "decider", "group", "needed", "given"]}),
            (_t("Who"), {"fields": ["shown_caller", "transport", "client_name", "decided_by", "reason"]}),
            (_t("When"), {"fields": [_ASKED, _DECIDED, _EXPIRES, "granted_until"]}),
            (_t("IDs"), {"fields": ["id", "invocation_id", "shown_turn", "shown_call"]}),
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
        return self.has_decide_permission(request) and self._is_open(request, object_id)

    @staticmethod
    def _is_open(request: HttpRequest, object_id: str | None) -> bool:
        """Return whether a call still waits. Each deed of its page asks, twice; the database is asked once a
        request.
        """
        known: dict[str | None, bool] = request.__dict__.setdefault("_hub_open_approvals", {})
        if object_id not in known:
            asked = McpApproval.objects.filter(pk=object_id)
            known[object_id] = asking.still_open(asked, timezone.now()).exists()
        return known[object_id]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        _decides.set(self.has_decide_permission(request))
        page: HttpResponse = super().changelist_view(request, extra_context)
        return page

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
            title=_t("Approve this call with your edits?"),
            explanation=_t("The call runs with the arguments below. Both versions are recorded."),
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
        """Return the caption of each call on the confirmation page: caller, arguments, and differences to the last
        approved call.
        """
        if not self.may_read(request):
            return lambda rows: {row.pk: row.caller_label for row in rows}
        return lambda rows: {
            row.pk: f"{row.caller_label} · {clipped(json.dumps(row.arguments).decode(), 1000)} · {_changes(row)}"
            for row in rows
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
            messages.warning(request, _t("None of these calls is waiting any longer."))
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
            explanation=_t("Each call can then run once within ten minutes, with exactly these arguments.")
            if approve
            else _t("The model is informed that the call was denied, and why."),
            button=_t("Approve") if approve else _t("Deny"),
        )
        if asked is not None:
            return asked
        decision = deciding.Decision(approve=approve, reason=request.POST.get("reason", ""))
        self._decide_rows(request, list(waiting), decision)
        return None

    def _decide_rows(self, request: HttpRequest, rows: list[McpApproval], decision: deciding.Decision) -> None:
        done, record, who = 0, RecordRedaction(redaction.load()), deciding.decider_of(request.user)
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
        shown = mark(_MARKS[row.status], row.get_status_display())
        if row.status != McpApproval.Status.PENDING:
            return shown
        given = f"{row.given}/{row.needed}" if row.needed > 1 else ""
        left = _t("%(time)s left") % {"time": timeuntil(row.expires_at)}
        until = timezone.localtime(row.expires_at).isoformat()
        words = '{} {} <br><time class="hub-subtle" datetime="{}">{}</time>'
        return format_html(words, shown, given, until, left)

    @admin.display(description=_("tool"))
    def shown_call_of(self, row: McpApproval) -> SafeString:
        return format_html('{}<br><span class="hub-subtle">{}</span>', mono(row.tool_name), self.shown_effects(row))

    @admin.display(description=_("effects"))
    def shown_effects(self, row: McpApproval) -> str:
        return ", ".join(_t(words) for words in row.effects.split(", ") if words)

    @admin.display(description=_("decide"), empty_value="")
    def shown_deeds(self, row: McpApproval) -> SafeString | None:
        if not (_decides.get() and _is_waiting(row)):
            return None
        deeds = [("a", "approve_it", _("Approve")), ("d", "deny_it", _("Deny"))]
        links = [
            (key, reverse(f"admin:invocations_mcpapproval_{name}", args=[quote(row.pk)]), words, row.tool_name)
            for key, name, words in deeds
        ]
        return format_html_join(
            " ", '<a class="hub-link" data-deed="{}" href="{}">{}<span class="hub-unseen"> {}</span></a>', links
        )

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
        return visible(_changes(row)) if _reads_bodies.get() else hidden_words()

    @admin.display(description=_("question"))
    def shown_turn(self, row: McpApproval) -> SafeString | str:
        if not row.turn_id:
            return "-"
        return of_feature("admin:chat_query_change", row.turn_id, row.turn_id)

    @admin.display(description=_("ID of the call at the model"))
    def shown_call(self, row: McpApproval) -> SafeString | str:
        return mono(row.call_id) if row.call_id else "-"


@adds_to_page(McpToolDefinition, ApiKey, User, place=30)
def waiting_calls(request: HttpRequest, row: Model) -> Iterator[PagePart]:
    """Yield the calls of a tool, a key or a person that wait for approval."""
    if not request.user.has_perm("invocations.view_mcpapproval"):
        return
    match row:
        case McpToolDefinition():
            where = {"tool_name": row.name}
        case ApiKey():
            where = {"credential": row.credential}
        case _:
            where = {"principal": f"user:{row.pk}"}
    waiting = asking.still_open(McpApproval.objects.filter(**where), timezone.now())
    for each in waiting.order_by("-created_at")[:_MOST_ON_PAGES]:
        words = _t("A call of %(tool)s by %(caller)s waits for approval.") % {
            "tool": clipped(each.tool_name, 64),
            "caller": clipped(each.caller_label or each.principal, 60),
        }
        yield PageWaiting(words, reverse("admin:invocations_mcpapproval_change", args=[each.pk]))


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
