"""The pages of guardrails: rows, their activity, and a page that tests detectors on pasted text."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
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
from django.utils.translation import ngettext
from unfold.widgets import UnfoldAdminTextInputWidget

from mcphub.features.guardrails import functions, recorded, trying
from mcphub.features.guardrails.filters import GUARDRAIL_FILTERS
from mcphub.features.guardrails.models import McpGuardrail
from sessions_app.history import guarding
from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import detail_action, mark, moment
from sessions_app.kit.admin.check import CheckedForm
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import clipped, mono
from sessions_app.protocol.json import Json
from tools_catalog.admin.switch import SwitchActions
from tools_catalog.detectors.scanning import GROUPS
from tools_catalog.models import HttpService

_CHANGED = moment("updated_at", _("changed"))
_REGISTERED = moment("created_at", _("registered"))
_KINDS = {"inspect": "wait", "mask": "warn", "refuse": "bad"}

# An admin is one object for all requests, and the columns of its pages are given the row alone.
_acted: ContextVar[Mapping[str, int]] = ContextVar("how often guardrails acted")


class TryGuardrailForm(forms.Form):
    text = forms.CharField(
        label=_("Text or JSON"),
        max_length=trying.MAX_CHARACTERS,
        strip=False,
        widget=forms.Textarea({"rows": 10, "spellcheck": "false", "class": "hub-json-text"}),
    )
    detectors = forms.CharField(
        label=_("Detectors"),
        required=False,
        max_length=1000,
        widget=UnfoldAdminTextInputWidget,
        help_text=_("Space-separated groups or kinds. Leave blank for all."),
    )


@admin.register(McpGuardrail)
class McpGuardrailAdmin(CheckedForm, SwitchActions, RecordedAdmin):
    checked_fields = (
        *("name", "applies_to", "target", "detectors", "max_bytes", "max_depth"),
        *("function", "service", "path", "on_failure", "action"),
    )
    list_display = [
        "shown_name",
        "shown_action",
        "shown_where",
        "direction",
        "shown_check",
        "position",
        "shown_acted",
        "state",
    ]
    list_display_links = ["shown_name"]
    filters = GUARDRAIL_FILTERS
    list_select_related = False  # no column follows a relation
    search_fields = ["name", "target", "detectors", "function", "service", "words"]
    search_help_text = _("Name, detectors or words")
    actions = ["enable_selected", "disable_selected"]
    actions_list = ["try_page"]
    readonly_fields = ["version", _REGISTERED, _CHANGED]
    fieldsets = [
        (None, {"fields": ["name", "version", "action", "words", "position"]}),
        (_("Which calls"), {"fields": ["applies_to", "target", "direction"]}),
        (_("What to detect"), {"fields": ["checked_by", "detectors", "max_bytes", "max_depth"]}),
        (_("Your own function or service"), {"fields": ["function", "service", "path", "seconds", "on_failure"]}),
        (_("When it applies"), {"fields": ["enabled", "watching", _REGISTERED, _CHANGED]}),
    ]

    shown_name = column(_("name"), lambda row: mono(row.name), ordering="name")
    shown_where = column(
        _("applies to"),
        lambda row: f"{row.get_applies_to_display()} {clipped(row.target, 60)}".strip(),
        ordering="applies_to",
    )

    @admin.display(description=_("action"), ordering="action")
    def shown_action(self, row: McpGuardrail) -> SafeString:
        if row.watching:
            return mark("wait", _t("%(effect)s (log only)") % {"effect": row.get_action_display()})
        return mark(_KINDS[row.action], row.get_action_display())

    @admin.display(description=_("detects"), ordering="checked_by")
    def shown_check(self, row: McpGuardrail) -> SafeString:
        named = {"detectors": row.detectors, "function": row.function, "service": f"{row.service} {row.path}"}
        return mono(clipped(named[row.checked_by], 80))

    @admin.display(description=_("in the last 10 000 calls"))
    def shown_acted(self, row: McpGuardrail) -> str:
        return _t("acted in %(count)d") % {"count": _acted.get({}).get(row.name, 0)}

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        _acted.set(recorded.acted())
        page: HttpResponse = super().changelist_view(request, extra_context)
        return page

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if db_field.name == "detectors" and field is not None:
            field.help_text = _t("Groups: %(groups)s. The Try detectors page lists the kinds in each.") % {
                "groups": ", ".join(GROUPS)
            }
        if db_field.name == "function" and field is not None and functions.registry:
            field.help_text = _t("Registered: %(names)s") % {"names": ", ".join(sorted(functions.registry))}
        return field

    def get_readonly_fields(self, request: HttpRequest, obj: McpGuardrail | None = None) -> list[str] | tuple[str, ...]:
        # The record names it, so the name stays.
        return [*self.readonly_fields, *(["name"] if obj is not None else [])]

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        may: bool = super().has_delete_permission(request, obj)
        is_loosening = isinstance(obj, McpGuardrail) and obj.is_in_force and guarding.needs_second_person()
        return may and not is_loosening  # switching it off is held back for a second person; removing it would not be

    @detail_action(description=_("Try detectors"), url_path="try", icon="science")
    def try_page(self, request: HttpRequest) -> HttpResponse:
        return self.try_view(request)

    def get_urls(self) -> list[URLPattern]:
        view = path("detectors/", self.admin_site.admin_view(self.try_view), name="guardrail_try")
        return [view, *super().get_urls()]

    def try_view(self, request: HttpRequest) -> HttpResponse:
        """Show the findings of detectors and of each guardrail in pasted text. Asks nobody and keeps nothing."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        form = TryGuardrailForm(request.POST if request.method == "POST" else None)
        found: trying.TriedScan | None = None
        rows: list[dict[str, Json]] = []
        if request.method == "POST" and form.is_valid():
            value = trying.read(form.cleaned_data["text"])
            try:
                found = trying.tried(value, form.cleaned_data["detectors"].replace(",", " ").split())
                rows = _by_guardrail(value)
            except ValueError as error:
                form.add_error("detectors", str(error))
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "form": form,
            "found": found,
            "rows": rows,
            "groups": GROUPS.items(),
            "title": _t("Try detectors"),
            "back": reverse("admin:tools_catalog_mcpguardrail_changelist"),
        }
        return TemplateResponse(request, "guardrails/try.html", context)

    def switch_words(self, enabled: bool, count: int) -> tuple[str, str, str]:
        if enabled:
            return (
                ngettext("Enable %(count)d guardrail?", "Enable %(count)d guardrails?", count),
                _t("They take effect within 250 ms. Log-only guardrails take no action; their findings are recorded."),
                ngettext("%(count)d guardrail enabled: %(names)s.", "%(count)d guardrails enabled: %(names)s.", count),
            )
        return (
            ngettext("Disable %(count)d guardrail?", "Disable %(count)d guardrails?", count),
            _t("They stop inspecting calls. Disabling a guardrail in force needs a second person."),
            ngettext("%(count)d guardrail disabled: %(names)s.", "%(count)d guardrails disabled: %(names)s.", count),
        )


def _by_guardrail(value: Json) -> list[dict[str, Json]]:
    """Return the findings of each enabled guardrail. Functions and services are not asked."""
    services = HttpService.enabled_ones()
    compiled = [row.compiled(services) for row in McpGuardrail.objects.filter(enabled=True)]
    return [
        {
            "name": f"{each.name}@{each.version}",
            "action": each.action,
            "watching": each.watching,
            "is_asked": found is not None,
            "kinds": [] if found is None else found.kinds,
            "milliseconds": None if found is None else f"{found.milliseconds:.2f}",
        }
        for each, found in trying.tried_guardrails(value, compiled)
    ]
