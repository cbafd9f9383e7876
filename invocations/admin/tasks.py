"""The read-only pages of tasks; running ones can be cancelled."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from invocations.admin.reading import RecordedReading, may_read_bodies
from invocations.lists.filters import TASK_FILTERS
from invocations.mapping.load import load_error_map
from invocations.models import McpToolInvocation
from invocations.tasks import store
from invocations.tasks.models import McpTask
from sessions_app.kit.admin.base import mark, moment
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import cell, clipped, mono, visible
from sessions_app.protocol.tasks import OPEN

_MARKS = {"working": "wait", "input_required": "edit", "completed": "good", "failed": "bad", "cancelled": "off"}
_BODIES = ("result", "error", "input_requests", "input_responses")

_CREATED = moment("created_at", _("created"))
_UPDATED = moment("updated_at", _("last change"))
_FINISHED = moment("finished_at", _("finished"))
_EXPIRES = moment("expires_at", _("expires"))


@admin.register(McpTask)
class McpTaskAdmin(RecordedReading):
    bodies = ("result", "error", "input_requests", "input_responses")
    list_display = [_CREATED, "shown_state", "shown_tool", "shown_caller", "shown_message", _EXPIRES]
    list_display_links = [_CREATED]
    filters = TASK_FILTERS
    search_fields = ["=task_id", "=invocation_id"]
    search_help_text = _("Task ID or invocation ID")
    ordering = ["-id"]
    is_windowed = True
    actions = ["cancel_selected"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[McpTask]:
        return super().get_queryset(request).defer(*_BODIES)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Model], search_term: str
    ) -> tuple[QuerySet[Model], bool]:
        term = search_term.strip()
        return (queryset.filter(task_id=term) | queryset.filter(invocation_id=term) if term else queryset), False

    def get_fieldsets(self, request: HttpRequest, obj: McpTask | None = None) -> Any:
        shown = [
            (None, {"fields": ["shown_state", "shown_tool", "shown_message", "call"]}),
            (_t("Who"), {"fields": ["shown_caller", "protocol_version"]}),
            (_t("When"), {"fields": [_CREATED, _UPDATED, _FINISHED, _EXPIRES]}),
            (_t("IDs"), {"fields": ["shown_task", "session_link", "shown_process"]}),
        ]
        if obj is not None and may_read_bodies(request):
            asked = ["input_requests", "input_responses"] if obj.input_requests else []
            outcome = [name for name in ("result", "error") if getattr(obj, name) is not None]
            if asked or outcome:
                shown.insert(1, (_t("Outcome"), {"fields": [*asked, *outcome]}))
        return shown

    shown_state = column(_("state"), lambda task: mark(_MARKS[task.state], task.get_state_display()))
    shown_tool = column(_("tool"), lambda task: mono(task.tool_name))
    shown_caller = column(_("caller"), lambda task: cell(f"{task.caller_label} ({task.principal})"))
    shown_message = column(_("message"), lambda task: cell(task.message or "-"))

    @admin.display(description=_("call"))
    def call(self, task: McpTask) -> SafeString:
        found = McpToolInvocation.objects.filter(invocation_id=task.invocation_id).values_list("pk", flat=True).first()
        if found is None:
            return format_html("{} ({})", mono(task.invocation_id), _t("not recorded yet"))
        address = reverse("admin:invocations_mcptoolinvocation_change", args=[found])
        return format_html('<a class="hub-link hub-mono" href="{}">{}</a>', address, task.invocation_id)

    shown_task = column(_("task"), lambda task: mono(task.task_id))
    session_link = column(
        _("session"),
        lambda task: format_html(
            '<a class="hub-link hub-mono" href="{}">{}</a>',
            reverse("admin:sessions_app_mcpsession_change", args=[quote(task.session_id)]),
            clipped(task.session_id, 64),
        ),
    )
    shown_process = column(_("process"), lambda task: mono(task.process_id))

    # Cancelling ------------------------------------------------------------------------------------

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("invocations.cancel_mcptask")

    @admin.action(description=_("Cancel the selected tasks"), permissions=["cancel"])
    def cancel_selected(self, request: HttpRequest, queryset: QuerySet[McpTask]) -> HttpResponse | None:
        running = queryset.filter(state__in=sorted(state.value for state in OPEN))
        page = self.confirmation_of(
            request,
            queryset,
            "cancel_selected",
            lambda count: ngettext("Cancel %(count)d task?", "Cancel %(count)d tasks?", count),
            _t(
                "The tools are stopped where they run, their callers see the tasks as cancelled, and the "
                "audit log records it. Effects so far remain."
            ),
            _t("Cancel the tasks"),
            touched=running,
            untouched=lambda others: ngettext("%(count)d had already ended.", "%(count)d had already ended.", others),
            danger=True,
        )
        if page is not None:
            return page
        errors = load_error_map()
        done = sum(store.cancel(task.task_id, task.invocation_id, errors) for task in running)
        words = ngettext("%(count)d task cancelled.", "%(count)d tasks cancelled.", done)
        self.message_user(request, words % {"count": done}, messages.SUCCESS)
        return None


def link_of(invocation_id: str) -> SafeString | None:
    """Return the way to the task that a call runs in; None for an ordinary call."""
    task = McpTask.objects.filter(invocation_id=invocation_id).only("task_id", "state").first()
    if task is None:
        return None
    address = reverse("admin:invocations_mcptask_change", args=[task.pk])
    words = visible(task.task_id, one_line=True)
    return format_html('<a class="hub-link hub-mono" href="{}">{}</a> {}', address, words, task.get_state_display())
