"""Forms of the catalogue's pages."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, cast

from django import forms
from django.conf import settings
from django.http import QueryDict
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminFileFieldWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
)

from sessions_app.kit.admin.json_field import JSONFormField
from tools_catalog.backends import offered
from tools_catalog.kinds.registry import KINDS, ToolKind
from tools_catalog.models import McpPrompt, McpResource, McpToolDefinition, Secret

if TYPE_CHECKING:
    _McpToolDefinitionBase = forms.ModelForm[McpToolDefinition]
    _SecretBase = forms.ModelForm[Secret]
    _ContentBase = forms.ModelForm[Any]
else:
    _McpToolDefinitionBase = _SecretBase = _ContentBase = forms.ModelForm


class ToolForm(_McpToolDefinitionBase):
    change_reason = forms.CharField(
        label=_("Reason for this change"),
        required=False,
        max_length=500,
        widget=UnfoldAdminTextInputWidget,
        help_text=_("Stored with the version that this change creates."),
    )

    class Meta:
        model = McpToolDefinition
        exclude: list[str] = []

    class Media:
        js = ("mcphub/arguments.js",)

    def __init__(self, data: QueryDict | None = None, *args: Any, **kwargs: Any) -> None:
        instance = kwargs.get("instance")
        if data is not None and (instance is None or instance.pk is None):
            data = self._completed(data)
        super().__init__(data, *args, **kwargs)
        configuration = self.instance.configuration if isinstance(self.instance.configuration, dict) else {}
        for kind in KINDS.values():
            self.fields.update(kind.make_form_fields(configuration if kind.name == self.instance.backend else {}))
        given = kwargs.get("initial") or {} if data is None else data
        self._show_fields_of(KINDS.get(str(given.get("backend", self.instance.backend if self.instance.pk else ""))))

    def _show_fields_of(self, shown: ToolKind | None) -> None:
        """Hide the fields of other kinds. They stay in the form, so a tool may become one of another kind."""
        if shown is None:
            return
        hidden = [name for kind in KINDS.values() if kind is not shown for name in kind.form_fields]
        for name in [*hidden, *([] if shown.edits_configuration else ["configuration"])]:
            if name in self.fields and name not in shown.form_fields:
                self.fields[name].widget = forms.HiddenInput()
        if "input_schema" in self.fields:
            self.fields["input_schema"].widget.attrs["data-arguments"] = json.dumps(
                {
                    "name": _t("Argument"),
                    "type": _t("Type"),
                    "required": _t("Required"),
                    "description": _t("Description"),
                    "add": _t("Add an argument"),
                    "remove": _t("Remove"),
                    "other": _t("other"),
                }
            )

    @staticmethod
    def _completed(data: QueryDict) -> QueryDict:
        """Fill in blank fields from the kind of tool."""
        kind = KINDS.get(str(data.get("backend")))
        return data if kind is None else kind.completed_form(data)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if "configuration" not in self.errors and "backend" in cleaned:
            KINDS[cleaned["backend"]].clean_form(self, cleaned)
        return cleaned


class ContentForm(_ContentBase):
    """Common to the forms of resources and prompts: a chosen function that fills in the rest."""

    REGISTRY: ClassVar[Mapping[str, offered.Offered]] = {}

    change_reason = forms.CharField(
        label=_("Reason for this change"),
        required=False,
        max_length=100,
        widget=UnfoldAdminTextInputWidget,
        help_text=_("Stored in the row's history."),
    )

    def __init__(self, data: QueryDict | None = None, *args: Any, **kwargs: Any) -> None:
        instance = kwargs.get("instance")
        if data is not None and (instance is None or instance.pk is None):
            data = self._completed(data)
        super().__init__(data, *args, **kwargs)
        if "function" in self.fields:
            names = sorted({*self.REGISTRY, *filter(None, [self.instance.function])})
            self.fields["function"] = forms.ChoiceField(
                label=_("Function"),
                required=False,
                widget=UnfoldAdminSelectWidget,
                choices=[("", "—"), *((name, name) for name in names)],
                help_text=_("For Python. Blank fields above are filled in from the function when the row is added."),
            )

    def _completed(self, data: QueryDict) -> QueryDict:
        """Fill in blank fields from the chosen function."""
        function = self.REGISTRY.get(data.get("function", ""))
        if data.get("backend") != "python" or function is None:
            return data
        data = data.copy()
        for column, value in function.columns.items():
            if str(data.get(column, "")).strip() in ("", "[]", "{}"):
                data[column] = value if isinstance(value, str) else JSONFormField().prepare_value(value)
        return data

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        for name in self._meta.model.JSON_COLUMNS:
            if name in cleaned and cleaned[name] is None:  # the field was emptied
                cleaned[name] = self._meta.model._meta.get_field(name).get_default()
        if cleaned.get("backend") == "python":
            if not cleaned.get("function"):
                self.add_error("function", _t("Choose the function that answers."))
        else:
            cleaned["function"] = ""
        return cleaned


class ResourceForm(ContentForm):
    REGISTRY = offered.resources

    upload = forms.FileField(
        label=_("File"),
        required=False,
        widget=UnfoldAdminFileFieldWidget,
        help_text=_("Replaces the content: as text or base64, depending on the backend."),
    )

    class Meta:
        model = McpResource
        exclude: list[str] = []

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "content" in self.fields:
            cast(forms.CharField, self.fields["content"]).strip = False

    def clean_content(self) -> str:
        # Browsers send every line of a text area with both of its ends.
        return str(self.cleaned_data["content"]).replace("\r\n", "\n")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        upload = cleaned.get("upload")
        if cleaned.get("backend") == "python":
            cleaned["content"] = ""
        elif upload:
            raw = upload.read(settings.MCPHUB_MAX_RESOURCE_BYTES + 1)
            if cleaned.get("backend") == "blob":
                cleaned["content"] = base64.b64encode(raw).decode()
            else:
                try:
                    cleaned["content"] = raw.decode()
                except UnicodeDecodeError:
                    self.add_error("upload", _t("This file is not UTF-8 text. Choose the binary backend."))
        return cleaned


class PromptForm(ContentForm):
    REGISTRY = offered.prompts

    class Meta:
        model = McpPrompt
        exclude: list[str] = []

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if cleaned.get("backend") == "python":
            cleaned["messages"] = []
        return cleaned


class SecretValueForm(_SecretBase):
    value = forms.CharField(
        label=_("New value"),
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text=_("Write-only: it is encrypted at once and never shown again."),
    )

    class Meta:
        model = Secret
        fields = ["name", "origins", "places", "users"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.fields["value"].required = False
            self.fields["value"].help_text = _("Write-only. Leave blank to keep the stored value.")
