"""The pages of request envelopes: what was accepted, before anything ran."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from invocations.admin_reading import RecordedReading, may_read_bodies
from invocations.models import McpRequestEnvelope, McpToolInvocation
from sessions_app.admin_base import mark, moment
from sessions_app.shown import clipped, json_block, mono, pretty

_RECEIVED = moment("received_at", _("received"))


@admin.register(McpRequestEnvelope)
class McpRequestEnvelopeAdmin(RecordedReading):
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
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        return (queryset.filter(invocation_id=term) if term else queryset), False

    def get_fields(self, request: HttpRequest, obj: Any | None = None) -> Any:
        body = ["shown_params", "shown_context"] if may_read_bodies(request) else []
        return [
            _RECEIVED,
            "method",
            "shown_tool",
            "principal",
            "outcome",
            "shown_request",
            "shown_process",
            *body,
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Any | None = None) -> Any:
        return self.get_fields(request, obj)

    @admin.display(description=_("tool"))
    def shown_tool(self, row: McpRequestEnvelope) -> SafeString:
        return format_html('<span class="hub-mono">{}</span> v{}', clipped(row.tool_name, 64), row.tool_version)

    @admin.display(description=_("invocation"))
    def shown_invocation(self, row: McpRequestEnvelope) -> SafeString:
        return mono(row.invocation_id)

    @admin.display(description=_("outcome"))
    def outcome(self, row: McpRequestEnvelope) -> SafeString:
        found = McpToolInvocation.objects.filter(invocation_id=row.invocation_id).values_list("pk", "status").first()
        if found is None:
            return mark("wait", _t("None yet: the call is under way, or its process is gone and recovery will tell."))
        address = reverse("admin:invocations_mcptoolinvocation_change", args=[found[0]])
        return format_html('<a class="hub-link" href="{}">{}</a> {}', address, row.invocation_id, found[1])

    @admin.display(description=_("request id"))
    def shown_request(self, row: McpRequestEnvelope) -> SafeString:
        return mono("-" if row.request_id is None else pretty(row.request_id))

    @admin.display(description=_("process"))
    def shown_process(self, row: McpRequestEnvelope) -> SafeString:
        return mono(row.process_id)

    @admin.display(description=_("parameters"))
    def shown_params(self, row: McpRequestEnvelope) -> SafeString:
        return json_block(row.params, _t("parameters"))

    @admin.display(description=_("context"))
    def shown_context(self, row: McpRequestEnvelope) -> SafeString:
        return json_block(row.context, _t("context"))
