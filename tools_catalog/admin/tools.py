"""The catalogue's pages: tools with their versions, and the secrets that HTTP tools send."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import Field, Model
from django.forms import Field as FormField
from django.forms import ModelForm
from django.http import HttpRequest
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import detail_action, moment
from sessions_app.kit.admin.check import CheckedForm
from sessions_app.kit.admin.json_field import JSONFormField
from sessions_app.kit.admin.parts import column
from sessions_app.kit.admin.search_line import SearchLine
from sessions_app.kit.names import free_name
from sessions_app.kit.shown import visible
from sessions_app.workspaces.pages import WorkspacePages
from tools_catalog import usage
from tools_catalog.admin import bundle, definition
from tools_catalog.admin.bulk import BulkActions
from tools_catalog.admin.forms import SecretValueForm, ToolForm
from tools_catalog.admin.tool_list import ToolList
from tools_catalog.admin.versions import VersionPages
from tools_catalog.filters import TOOL_FILTERS
from tools_catalog.kinds.registry import KINDS, ToolKind
from tools_catalog.models import McpToolDefinition, McpToolset, Secret, reach

if TYPE_CHECKING:
    from django.http import HttpResponse
    from django.utils.safestring import SafeString

_CHANGED = moment("updated_at", _("changed"))
_REGISTERED = moment("created_at", _("registered"))


_RUN = _("How it runs")
_MOST_TOOLSETS = 100
"""Toolsets that are searched for a tool: each finds its tools by patterns."""


def _free_name(name: str) -> str:
    """Return the name, numbered if another tool has it, and then cut where it would be too long."""
    most = McpToolDefinition._meta.get_field("name").max_length or 0
    taken = set(McpToolDefinition.objects.filter(name__startswith=name[: most - 9]).values_list("name", flat=True))
    return free_name(name, taken.__contains__, most, "_")


def _chosen_kind(request: HttpRequest) -> ToolKind | None:
    """Return the kind of a new tool that an address names."""
    kind = KINDS.get(request.GET.get("kind", ""))
    return None if kind is None or kind.comes_by_approval else kind


def _own_fields() -> list[str]:
    """Name the fields of the tool's form that are no columns."""
    return [*(name for kind in KINDS.values() for name in kind.form_fields), "change_reason"]


def _not_served(tool: McpToolDefinition) -> str:
    return KINDS[tool.backend].not_served(tool) if tool.enabled and tool.backend in KINDS else ""


@admin.register(McpToolDefinition)
class McpToolDefinitionAdmin(WorkspacePages, VersionPages, CheckedForm, BulkActions, ToolList, RecordedAdmin):
    form = ToolForm
    checked_fields = ("name", "input_schema", "output_schema", "configuration", "meta", "requirements")
    filters = TOOL_FILTERS
    list_select_related = False  # no column follows a relation
    search_fields = ["name", "title", "description"]
    search_help_text = _("enabled:yes, backend:http – or words of name, title or description")
    change_list_template = "admin/hub/found_list.html"
    parts = (SearchLine(),)
    autocomplete_fields = ["groups"]
    actions = ["enable_selected", "disable_selected", *BulkActions.bulk_actions]
    page_facts = ("title", "description", "state", "effects", "source", "version", "approval", "shown_toolsets")
    actions_detail = ["try_it", "show_calls", "show_versions"]
    actions_list = ["as_a_file"]
    change_form_before_template = "admin/hub/tool_note.html"
    change_form_after_template = "admin/hub/definition.html"
    readonly_fields = ["version", _REGISTERED, _CHANGED]
    fieldsets = [
        (_("What models read"), {"fields": ["name", "title", "description"]}),
        (_("Arguments and result"), {"fields": ["input_schema", "output_schema"]}),
        (_RUN, {"fields": ["backend", "configuration", "timeout_seconds", "task_support"]}),
        (_("Description"), {"fields": ["read_only", "destructive", "idempotent", "open_world", "retry_safe"]}),
        (_("Access"), {"fields": ["enabled", "workspace", "groups", "calls_per_minute"]}),
        (_("More"), {"classes": ["collapse"], "fields": ["meta", "requirements", "version", _REGISTERED, _CHANGED]}),
        (_("This change"), {"fields": ["change_reason"]}),
    ]

    @admin.display(description=_("toolsets"))
    def shown_toolsets(self, tool: McpToolDefinition) -> SafeString:
        found = [each for each in McpToolset.objects.filter(enabled=True)[:_MOST_TOOLSETS] if tool.name in each.names()]
        page = "admin:tools_catalog_mcptoolset_change"
        return format_html_join(
            ", ",
            '<a class="hub-link hub-mono" href="{}">{}</a>',
            ((reverse(page, args=[each.pk]), each.slug) for each in found),
        )

    def get_form(
        self, request: HttpRequest, obj: Model | None = None, change: bool = False, **kwargs: Any
    ) -> type[ModelForm[Model]]:
        # The fields that the form adds to the model's must not be looked for on the model.
        named = kwargs.pop("fields", None)
        if named is None:
            named = [name for _title, options in self.get_fieldsets(request, obj) for name in options["fields"]]
        kwargs["fields"] = named and [name for name in named if name not in _own_fields()]
        return super().get_form(request, obj, change, **kwargs)

    # A new tool ------------------------------------------------------------------------------------------

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None) -> Any:
        """Ask for the kind first; a function of the hub fills in the form."""
        if request.method != "GET" or _chosen_kind(request) is not None or not self.has_add_permission(request):
            return super().add_view(request, form_url, extra_context)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": _t("Add a tool"),
            "kinds": [(kind, kind.offered()) for kind in KINDS.values() if not kind.comes_by_approval],
        }
        return TemplateResponse(request, "admin/hub/tool_kind.html", context)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        kind = _chosen_kind(request)
        if kind is None:
            return super().get_changeform_initial_data(request)
        filled = kind.initial(request.GET.dict())
        if isinstance(name := filled.get("name"), str):
            filled["name"] = _free_name(name)
        return {"backend": kind.name, **filled}

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        if self.has_change_permission(request, obj) or (obj is None and self.has_add_permission(request)):
            backend, *rest = next(options["fields"] for title, options in self.fieldsets if title == _RUN)
            named = [name for kind in KINDS.values() for name in kind.form_fields]
            shown = [
                (title, {**options, "fields": [backend, *named, *rest]} if title == _RUN else options)
                for title, options in self.fieldsets
            ]
            return shown if obj is not None else sorted(shown, key=lambda each: each[0] != _RUN)
        return [  # the form's own fields stand in the form only, which a reader does not get
            (title, {**options, "fields": kept})
            for title, options in self.fieldsets
            if (kept := [name for name in options["fields"] if name not in _own_fields()])
        ]

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def beside(self, request: HttpRequest, row: McpToolDefinition) -> dict[str, object]:
        tool = McpToolDefinition.objects.get(pk=row.pk)  # as clients read it, not as the form would have it
        words = "\n".join([tool.title, tool.description])
        return {
            "not_served": _not_served(tool),
            "aliases": tool.aliases.live(),
            "covering": reach.covering(tool),
            "definition": definition.shown(tool),
            "unhidden": visible(words) if visible(words) != words else "",
        }

    def save_model(self, request: HttpRequest, obj: McpToolDefinition, form: ModelForm[Model], change: bool) -> None:
        obj.change_author = request.user
        obj.change_reason = form.cleaned_data.get("change_reason", "")
        super().save_model(request, obj, form, change)

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        pages = [
            path("bundle/", wrap(partial(bundle.bundle_view, self)), name="catalogue_bundle"),
            path("bundle/file/", wrap(partial(bundle.export_view, self)), name="catalogue_export"),
            path("<int:pk>/versions/", wrap(self.versions_view), name="tool_versions"),
            path("<int:pk>/versions/<str:number>/", wrap(self.difference_view), name="tool_version"),
            path("<int:pk>/versions/<str:number>/restore/", wrap(self.restore_view), name="tool_version_restore"),
        ]
        return pages + super().get_urls()

    # Actions on one tool -----------------------------------------------------------------------------

    @detail_action(description=_("Export, import"), icon="import_export", url_path="as-a-file", permissions=["view"])
    def as_a_file(self, request: HttpRequest) -> HttpResponse:
        return redirect("admin:catalogue_bundle")

    @detail_action(description=_("Versions"), icon="difference", url_path="all-versions", permissions=["view"])
    def show_versions(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("admin:tool_versions", pk=object_id)

    @detail_action(description=_("Calls"), icon="monitoring", url_path="its-calls", permissions=["calls"])
    def show_calls(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("tool_calls", pk=object_id)

    def has_calls_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return usage.may_see(request.user)

    @detail_action(description=_("Try it"), icon="play_arrow", url_path="try-it", permissions=["try"])
    def try_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("tool_try", pk=object_id)

    def has_try_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        try:
            reverse("tool_try", args=[1])
        except NoReverseMatch:
            return False
        return request.user.has_perm("tools_catalog.try_mcptooldefinition")

    # Actions on many ---------------------------------------------------------------------------------

    def switch_words(self, enabled: bool, count: int) -> tuple[str, str, str]:
        if enabled:
            return (
                ngettext("Enable %(count)d tool?", "Enable %(count)d tools?", count),
                _t("Clients can see and call these tools again within 250 ms."),
                ngettext("%(count)d tool enabled: %(names)s.", "%(count)d tools enabled: %(names)s.", count),
            )
        return (
            ngettext("Disable %(count)d tool?", "Disable %(count)d tools?", count),
            _t(
                "Clients no longer see these tools, and calls to them are refused and recorded. Running "
                "calls finish. You can enable them again."
            ),
            ngettext("%(count)d tool disabled: %(names)s.", "%(count)d tools disabled: %(names)s.", count),
        )

    def formfield_for_dbfield(
        self, db_field: Field[object, object], request: HttpRequest, **kwargs: object
    ) -> FormField | None:
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if isinstance(field, JSONFormField) and db_field.name == "configuration":
            field.required = False  # a Python tool's is made from the chosen function
        return field


_BOUND = ("origins", "places", "users")


@admin.register(Secret)
class SecretAdmin(RecordedAdmin):
    form = SecretValueForm
    list_display = ["name", "mask", "origins", "users", "shown_fingerprint", _CHANGED]
    search_fields = ["name"]
    readonly_fields = ["mask", "shown_fingerprint", _CHANGED]
    fieldsets = [(None, {"fields": ["name", *_BOUND, "value", "mask", "shown_fingerprint", _CHANGED]})]
    add_fieldsets = [(None, {"fields": ["name", *_BOUND, "value"]})]

    shown_fingerprint = column(
        _("fingerprint"), lambda secret: format_html('<span class="hub-mono">{}</span>', secret.fingerprint[:20])
    )

    def get_readonly_fields(self, request: HttpRequest, obj: Secret | None = None) -> list[str]:
        # The value is sealed under the row's name, so the name stays.
        return [*self.readonly_fields, "name"] if obj is not None else []

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            return [(None, {"fields": ["name", *_BOUND, "mask", "shown_fingerprint", _CHANGED]})]
        return super().get_fieldsets(request, obj)

    def get_form(
        self, request: HttpRequest, obj: Model | None = None, change: bool = False, **kwargs: Any
    ) -> type[ModelForm[Model]]:
        kwargs.setdefault("fields", [*_BOUND] if obj is not None else ["name", *_BOUND])
        return super().get_form(request, obj, change, **kwargs)

    def save_model(self, request: HttpRequest, obj: Secret, form: ModelForm[Model], change: bool) -> None:
        if value := form.cleaned_data.get("value"):
            obj.set_value(value)
            obj.change_reason = _t("new value") if change else ""
        super().save_model(request, obj, form, change)
