"""The pages of resources and prompts."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Model
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import mark, moment
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import breakable, clipped, mono, visible
from sessions_app.workspaces.pages import WorkspacePages
from tools_catalog.admin.forms import PromptForm, ResourceForm
from tools_catalog.admin.switch import SwitchActions
from tools_catalog.filters import PROMPT_FILTERS, RESOURCE_FILTERS
from tools_catalog.models import McpPrompt, McpResource

_CHANGED = moment("updated_at", _("changed"))
_REGISTERED = moment("created_at", _("registered"))


class ContentAdmin(WorkspacePages, SwitchActions, RecordedAdmin):
    workspace_pages = ()
    """Common to both."""

    list_select_related: ClassVar[bool | list[str]] = False  # no column follows a relation
    autocomplete_fields = ["groups"]
    actions = ["enable_selected", "disable_selected"]
    readonly_fields = [_REGISTERED, _CHANGED]
    form_fields: tuple[str, ...] = ("change_reason",)
    """Stand in the form only, which a reader does not get."""

    def get_form(
        self, request: HttpRequest, obj: Model | None = None, change: bool = False, **kwargs: object
    ) -> type[ModelForm[Model]]:
        # The fields that the form adds to the model's must not be looked for on the model.
        if "fields" not in kwargs:
            named = [name for _title, options in self.get_fieldsets(request, obj) for name in options["fields"]]
            kwargs["fields"] = [name for name in named if name not in self.form_fields]
        return super().get_form(request, obj, change, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        fieldsets: Any = self.fieldsets
        if self.has_change_permission(request, obj) or (obj is None and self.has_add_permission(request)):
            return fieldsets
        return [
            (title, {**options, "fields": kept})
            for title, options in fieldsets
            if (kept := [name for name in options["fields"] if name not in self.form_fields])
        ]

    def save_model(
        self, request: HttpRequest, obj: McpResource | McpPrompt, form: ModelForm[Model], change: bool
    ) -> None:
        obj.change_reason = form.cleaned_data.get("change_reason", "")
        super().save_model(request, obj, form, change)

    shown_title = column(
        _("title"),
        lambda row: format_html(
            '<span class="hub-cell" title="{}">{}</span>', visible(row.description[:500]), clipped(row.title, 80) or "-"
        ),
        ordering="title",
    )


@admin.register(McpResource)
class McpResourceAdmin(ContentAdmin):
    form = ResourceForm
    form_fields = ("upload", "change_reason")
    list_display = ["shown_uri", "shown_name", "shown_title", "kind", "backend", "mime_type", "state", _CHANGED]
    list_display_links = ["shown_uri"]
    filters = RESOURCE_FILTERS
    search_fields = ["uri", "name", "title", "description"]
    search_help_text = _("URI, name, title or description")
    fieldsets = [
        (_("What clients see"), {"fields": ["uri", "name", "title", "description", "mime_type"]}),
        (_("Content"), {"fields": ["backend", "content", "upload", "function", "timeout_seconds"]}),
        (_("Access"), {"fields": ["enabled", "workspace", "groups"]}),
        (
            _("More"),
            {"classes": ["collapse"], "fields": ["annotations", "completions", "icons", "meta", _REGISTERED, _CHANGED]},
        ),
        (_("This change"), {"fields": ["change_reason"]}),
    ]

    shown_uri = column("URI", lambda resource: mono(clipped(resource.uri, 100)), ordering="uri")
    shown_name = column(_("name"), lambda resource: breakable(resource.name), ordering="name")
    kind = column(
        _("kind"), lambda resource: mark("edit", _("Template")) if resource.is_template else mark("good", _("Resource"))
    )

    def switch_words(self, enabled: bool, count: int) -> tuple[str, str, str]:
        if enabled:
            return (
                ngettext("Enable %(count)d resource?", "Enable %(count)d resources?", count),
                _t("Clients can see and read them again within 250 ms."),
                ngettext("%(count)d resource enabled: %(names)s.", "%(count)d resources enabled: %(names)s.", count),
            )
        return (
            ngettext("Disable %(count)d resource?", "Disable %(count)d resources?", count),
            _t("Clients no longer see them. You can enable them again."),
            ngettext("%(count)d resource disabled: %(names)s.", "%(count)d resources disabled: %(names)s.", count),
        )


@admin.register(McpPrompt)
class McpPromptAdmin(ContentAdmin):
    form = PromptForm
    list_display = ["shown_name", "shown_title", "backend", "takes", "state", _CHANGED]
    list_display_links = ["shown_name"]
    filters = PROMPT_FILTERS
    search_fields = ["name", "title", "description"]
    search_help_text = _("Name, title or description")
    fieldsets = [
        (_("What clients see"), {"fields": ["name", "title", "description", "arguments"]}),
        (_("Content"), {"fields": ["backend", "messages", "function", "timeout_seconds"]}),
        (_("Access"), {"fields": ["enabled", "workspace", "groups"]}),
        (_("More"), {"classes": ["collapse"], "fields": ["completions", "icons", "meta", _REGISTERED, _CHANGED]}),
        (_("This change"), {"fields": ["change_reason"]}),
    ]

    shown_name = column(_("name"), lambda prompt: mono(prompt.name), ordering="name")

    @admin.display(description=_("arguments"))
    def takes(self, prompt: McpPrompt) -> str:
        names = [str(argument.get("name", "")) for argument in prompt.arguments if isinstance(argument, dict)]
        return clipped(", ".join(names), 80) or "-"

    def switch_words(self, enabled: bool, count: int) -> tuple[str, str, str]:
        if enabled:
            return (
                ngettext("Enable %(count)d prompt?", "Enable %(count)d prompts?", count),
                _t("Clients can see and use them again within 250 ms."),
                ngettext("%(count)d prompt enabled: %(names)s.", "%(count)d prompts enabled: %(names)s.", count),
            )
        return (
            ngettext("Disable %(count)d prompt?", "Disable %(count)d prompts?", count),
            _t("Clients no longer see them. You can enable them again."),
            ngettext("%(count)d prompt disabled: %(names)s.", "%(count)d prompts disabled: %(names)s.", count),
        )
