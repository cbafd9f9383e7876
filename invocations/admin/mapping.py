"""The page of error mappings, with a preview of the caller's view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.db.models import Field, Model
from django.forms import Field as FormField
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from invocations.mapping.error_map import ErrorMap, ErrorRule
from invocations.models import McpErrorMapping
from sessions_app.caller import ANONYMOUS
from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import mark, moment
from sessions_app.kit.admin.check import CheckedForm, previewed
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import clipped, json_block
from sessions_app.protocol import errors
from tools_catalog.catalog.selection import Selection

if TYPE_CHECKING:
    _McpErrorMappingBase = forms.ModelForm[McpErrorMapping]
else:
    _McpErrorMappingBase = forms.ModelForm

_EXAMPLES: dict[str, dict[str, Any]] = {
    "timeout": {"timeout_seconds": 30},
    "tool_disabled": {"tool": "echo"},
    "resource_not_found": {"uri": "file:///notes.txt"},
    "prompt_not_found": {"prompt": "greeting"},
    "url_elicitation_required": {
        "elicitations": [
            {
                "mode": "url",
                "elicitationId": "019a0000-0000-7000-8000-000000000002",
                "url": "https://bank.example/agree",
                "message": "Agree to the transfer there.",
            }
        ]
    },
    "invalid_arguments": {"violations": [{"path": "/city", "message": "is required"}]},
    "upstream_error": {"status": 502},
    "payload_too_large": {"limit_bytes": 4_194_304},
    "method_not_found": {"method": "tools/dance"},
    "rate_limited": {"retry_after_seconds": 20},
    "quota_reached": {
        "quota": "interns-daily",
        "unit": "calls",
        "limit": 1000,
        "used": 1000,
        "resetsAt": "2026-11-26T00:00:00Z",
        "retryAfterSeconds": 3600,
    },
    "duplicate_request": {"first": "019a0000-0000-7000-8000-000000000000"},
    "unsupported_protocol_version": {"supported": ["2025-11-25"], "requested": "2099-01-01"},
    "missing_client_capability": {"requiredCapabilities": {"sampling": {}}},
}
"""Details that an error of this code carries, for the preview."""
_SENTENCES = {
    "tool_disabled": "The tool echo is not served. It is switched off. Ask the hub's operator to enable it, or choose "
    "another.",
    "provider_unavailable": "openai fails with HTTP status 503.",
    "authentication_failed": "openai does not accept the hub's key. Tell the hub's operator.",
    "quota_exceeded": "The quota at openai is used up. Tell the hub's operator.",
    "session_busy": "The session answers another request. Wait for it.",
}
"""The hub's sentences for codes that name a subject or have no class."""


def example(code: str) -> errors.HubError:
    """Return an error of the code, as the hub might raise it."""
    if code == errors.ToolNotFound.code:
        return _not_found()
    level: list[type[errors.HubError]] = [errors.HubError]
    while level:
        kind = level.pop(0)  # the general one first, not a feature's with the same code
        if kind.__dict__.get("code") == code:
            break
        level.extend(kind.__subclasses__())
    else:
        kind = errors.HubError
    made = kind.__new__(kind)  # its own __init__ may want more than an example has
    errors.HubError.__init__(made, _SENTENCES.get(code, kind.sentence), **_EXAMPLES.get(code, {}))
    made.code = code  # type: ignore[misc]
    return made


def _not_found() -> errors.HubError:
    try:
        Selection().find("echo", ANONYMOUS)
    except errors.ToolNotFound as error:
        return error
    raise AssertionError


class McpErrorMappingForm(_McpErrorMappingBase):
    class Meta:
        model = McpErrorMapping
        fields = ["internal_code", "json_rpc_code", "message_template", "retryable", "data_schema"]


_CHANGED = moment("updated_at", _("changed"))
_NO_PREVIEW = _("Correct the errors above to see the preview.")


@admin.register(McpErrorMapping)
class McpErrorMappingAdmin(CheckedForm, RecordedAdmin):
    form = McpErrorMappingForm
    checked_fields = ("json_rpc_code", "message_template", "data_schema")
    list_display = ["internal_code", "json_rpc_code", "shown_template", "shown_retryable", _CHANGED]
    list_filter = ["retryable"]
    search_fields = ["internal_code", "message_template", "=json_rpc_code"]
    search_help_text = _("Internal code, JSON-RPC code or message")
    fieldsets = [
        (None, {"fields": ["internal_code", "json_rpc_code", "message_template", "retryable"]}),
        (_("Data"), {"fields": ["data_schema"]}),
        (_("What a caller would read"), {"fields": ["preview", _CHANGED]}),
    ]
    add_fieldsets = [
        (None, {"fields": ["internal_code", "json_rpc_code", "message_template", "retryable", "data_schema"]})
    ]

    shown_template = column(_("message template"), lambda rule: clipped(rule.message_template, 100))
    shown_retryable = column(
        _("retryable"),
        lambda rule: mark("good", _("Yes")) if rule.retryable else mark("off", _("No")),
        ordering="retryable",
    )

    @admin.display(description=_("JSON-RPC error"))
    def preview(self, rule: McpErrorMapping) -> SafeString | str:
        """Render the rule as it stands in the form, so that a refused edit is seen before it is mended."""
        try:
            value = ErrorRule(
                rule.internal_code, rule.json_rpc_code, rule.message_template, rule.retryable, rule.data_schema or {}
            )
            rendered = ErrorMap([value]).render(
                example(rule.internal_code), tool="echo", invocation_id="019a0000-0000-7000-8000-000000000001"
            )
        except (ValueError, TypeError, AttributeError):
            return previewed(_NO_PREVIEW)
        return previewed(json_block(rendered, _t("JSON-RPC error")))

    def preview_of(self, row: McpErrorMapping) -> SafeString | str:
        return previewed(_NO_PREVIEW) if row is None else self.preview(row)

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        return ["internal_code", "preview", _CHANGED] if obj is not None else []

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Every code of the closed list has its row; one may be added only where a row is missing."""
        may: bool = super().has_add_permission(request)
        return may and McpErrorMapping.objects.count() < len(errors.MAPPED_CODES)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def formfield_for_dbfield(
        self, db_field: Field[object, object], request: HttpRequest, **kwargs: object
    ) -> FormField | None:
        if db_field.name == "internal_code":
            taken = set(McpErrorMapping.objects.values_list("internal_code", flat=True))
            left = sorted(errors.MAPPED_CODES - taken)
            return forms.ChoiceField(label=db_field.verbose_name, choices=[(code, code) for code in left])
        return super().formfield_for_dbfield(db_field, request, **kwargs)
