"""The pages of request envelopes: requests that were accepted, before anything ran."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from invocations.admin.reading import RecordedReading, body_block, may_read_bodies
from invocations.models import McpRequestEnvelope, McpToolInvocation
from sessions_app.kit.admin.base import mark, moment
from sessions_app.kit.admin.parts import column
from sessions_app.kit.admin.replica import ReplicaPages
from sessions_app.kit.shown import clipped, mono, pretty

_RECEIVED = moment("received_at", _("received"))


@admin.register(McpRequestEnvelope)
class McpRequestEnvelopeAdmin(ReplicaPages, RecordedReading):
    bodies = ("params", "context")
    list_display = [_RECEIVED, "shown_tool", "method", "principal", "shown_invocation"]
    list_display_links = [_RECEIVED]
    search_fields = ["=invocation_id"]
    search_help_text = _("Invocation id")
    ordering = ["-id"]
    actions = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[McpRequestEnvelope]:
        return super().get_queryset(request).defer("params", "context")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Model], search_term: str
    ) -> tuple[QuerySet[Model], bool]:
        term = search_term.strip()
        return (queryset.filter(invocation_id=term) if term else queryset), False

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        body = ["shown_params", "context"] if may_read_bodies(request) else []
        head = [_RECEIVED, "method", "shown_tool", "principal", "session_link", "outcome"]
        return [*head, "shown_request", "shown_process", *body]

    shown_tool = column(
        _("tool"),
        lambda row: format_html(
            '<span class="hub-mono">{}</span> {}',
            clipped(row.tool_name or "-", 64),
            f"v{row.tool_version}" if row.tool_version else "",
        ),
    )
    shown_invocation = column(_("invocation"), lambda row: mono(row.invocation_id))

    @admin.display(description=_("outcome"))
    def outcome(self, row: McpRequestEnvelope) -> SafeString:
        found = McpToolInvocation.objects.filter(invocation_id=row.invocation_id).values_list("pk", "status").first()
        if found is None:
            return mark(
                "wait", _t("None yet: the call is running, or its process ended and recovery will record the outcome.")
            )
        address = reverse("admin:invocations_mcptoolinvocation_change", args=[found[0]])
        return format_html('<a class="hub-link" href="{}">{}</a> {}', address, row.invocation_id, found[1])

    shown_params = column(_("parameters"), lambda row: body_block(row.params, "params"))
    session_link = column(
        _("session"),
        lambda row: format_html(
            '<a class="hub-link hub-mono" href="{}">{}</a>',
            reverse("admin:sessions_app_mcpsession_change", args=[quote(row.session_id)]),
            clipped(row.session_id, 64),
        ),
    )
    shown_request = column(_("request ID"), lambda row: mono("-" if row.request_id is None else pretty(row.request_id)))
    shown_process = column(_("process"), lambda row: mono(row.process_id))
