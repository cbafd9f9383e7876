"""The pages of redaction rules, and a preview of the stored form of a call."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget

from invocations.redaction import load
from invocations.redaction.bodies import StoredBodies
from invocations.redaction.models import McpRedactionRule
from sessions_app.history import guarding
from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import detail_action, mark, moment
from sessions_app.kit.admin.json_field import JSONEditor, JSONFormField
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import clipped, json_block, mono
from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from tools_catalog.models import McpToolDefinition

_CREATED = moment("created_at", _("created"))
_ERROR = {"code": 0, "message": "", "data": {"errorCode": "execution_error", "retryable": False}}


class PreviewForm(forms.Form):
    tool = forms.ChoiceField(label=_("Tool"), widget=UnfoldAdminSelectWidget)
    arguments = JSONFormField(label=_("Arguments"), initial={}, required=False, widget=JSONEditor({"rows": 8}))
    result = JSONFormField(
        label=_("Structured result or CallToolResult"), required=False, widget=JSONEditor({"rows": 8})
    )
    message = forms.CharField(
        label=_("Error message"), required=False, widget=forms.TextInput({"class": "hub-json-text"})
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = list(McpToolDefinition.objects.values_list("name", flat=True))
        self.fields["tool"].choices = [("", "—"), *((name, name) for name in names)]  # type: ignore[attr-defined]

    def clean_arguments(self) -> dict[str, object]:
        return self._object("arguments") or {}

    def clean_result(self) -> dict[str, object] | None:
        value = self._object("result")
        if value is None or isinstance(value.get("content"), list):
            return value
        # As the hub would record a structured result: repeated as text.
        return {"content": [{"type": "text", "text": json.canonical(value)}], "structuredContent": value}

    def _object(self, name: str) -> dict[str, object] | None:
        value = self.cleaned_data[name]
        if value is not None and not isinstance(value, dict):
            raise forms.ValidationError(_("Enter one JSON object."))
        return value


@admin.register(McpRedactionRule)
class McpRedactionRuleAdmin(RecordedAdmin):
    list_display = ["shown_place", "kind", "part", "shown_tool", "shown_state", "note"]
    list_filter = ["kind", "part", "enabled"]
    search_fields = ["place", "tool_name", "note"]
    fieldsets = [(None, {"fields": ["kind", "place", "part", "tool_name", "enabled", "note"]})]
    actions_list = ["preview"]

    shown_place = column(_("location"), lambda rule: mono(clipped(rule.place, 80)), ordering="place")
    shown_tool = column(
        _("tool"), lambda rule: mono(rule.tool_name) if rule.tool_name else _t("all tools"), ordering="tool_name"
    )
    shown_state = column(
        _("state"),
        lambda rule: mark("good", _("In force")) if rule.enabled else mark("off", _("Off")),
        ordering="enabled",
    )

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        may: bool = super().has_delete_permission(request, obj)
        is_loosening = isinstance(obj, McpRedactionRule) and obj.enabled and guarding.needs_second_person()
        return may and not is_loosening  # switching it off is held back for a second person; removing it would not be

    @detail_action(description=_("Preview"), url_path="preview", icon="preview")
    def preview(self, request: HttpRequest) -> HttpResponse:
        return self.preview_view(request)

    def get_urls(self) -> list[URLPattern]:
        view = path("what-is-stored/", self.admin_site.admin_view(self.preview_view), name="redaction_preview")
        return [view, *super().get_urls()]

    def preview_view(self, request: HttpRequest) -> HttpResponse:
        """Show the stored form of a call. Makes no call and stores nothing."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        initial = {"tool": request.GET.get("tool", "")}
        form = PreviewForm(request.POST if request.method == "POST" else None, initial=initial)
        shown: list[tuple[str, SafeString, list[str]]] = []
        if request.method == "POST" and form.is_valid():
            shown = _stored(**form.cleaned_data)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "form": form,
            "shown": shown,
            "title": _t("What would be stored"),
            "back": reverse("admin:invocations_mcpredactionrule_changelist"),
        }
        return TemplateResponse(request, "admin/hub/redaction.html", context)


def _stored(
    tool: str, arguments: dict[str, Json], result: dict[str, Json] | None, message: str
) -> list[tuple[str, SafeString, list[str]]]:
    """Return title, JSON and left-out places of each body that was written down."""
    row = McpToolDefinition.objects.filter(name=tool).only("input_schema", "output_schema").first()
    definition = {} if row is None else {"inputSchema": row.input_schema, "outputSchema": row.output_schema}
    stored = StoredBodies(arguments, json.canonical(arguments), load.load().of(tool, definition))
    error = {**_ERROR, "message": message} if message else None
    kept_result, kept_error = stored.outcome(None if result is None else json.canonical(result), error)
    bodies: list[tuple[str, Any, str | None]] = [
        (_t("Arguments"), "arguments", stored.arguments),
        (_t("Result"), "result", kept_result),
        (_t("Error message"), "error", kept_error),
    ]
    shown = []
    for title, name, text in bodies:
        if text is None:
            continue
        value = json.loads(text.encode(), max_depth=512)
        left_out = stored.left_out.get(name, {})
        notes = list(left_out.get("redacted", []))
        if "truncated" in left_out:
            notes.append(_t("truncated: %(bytes)d bytes in total") % left_out)
        shown.append((title, json_block(value.get("message", value) if name == "error" else value, title), notes))
    return shown
