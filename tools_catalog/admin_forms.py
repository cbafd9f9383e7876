"""Forms of the catalogue's pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from django import forms
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from sessions_app.admin_base import JSONFormField
from tools_catalog.backends import python
from tools_catalog.models import Backend, McpToolDefinition, Secret

if TYPE_CHECKING:
    _McpToolDefinitionBase = forms.ModelForm[McpToolDefinition]
    _SecretBase = forms.ModelForm[Secret]
else:
    _McpToolDefinitionBase = _SecretBase = forms.ModelForm

_FROM_FUNCTION = {
    "name": "name", "title": "title", "description": "description", "input_schema": "inputSchema",
    "output_schema": "outputSchema",
}  # fmt: skip


class ToolForm(_McpToolDefinitionBase):
    function = forms.ChoiceField(
        label=_("Function"), required=False, widget=UnfoldAdminSelectWidget,
        help_text=_("For Python tools. What is left empty above is taken from the function when the tool is added."),
    )  # fmt: skip
    change_reason = forms.CharField(
        label=_("Reason for this change"), required=False, max_length=500, widget=UnfoldAdminTextInputWidget,
        help_text=_("Kept with the version that this change makes."),
    )  # fmt: skip

    class Meta:
        model = McpToolDefinition
        exclude: list[str] = []

    def __init__(self, data: Any = None, *args: Any, **kwargs: Any) -> None:
        instance = kwargs.get("instance")
        if data is not None and (instance is None or instance.pk is None):
            data = self._completed(data)
        super().__init__(data, *args, **kwargs)
        function = cast(forms.ChoiceField, self.fields["function"])
        function.choices = [("", "—"), *((name, name) for name in sorted(python.registry))]
        if self.instance.pk and isinstance(self.instance.configuration, dict):
            function.initial = self.instance.configuration.get("function", "")

    @staticmethod
    def _completed(data: Any) -> Any:
        """Fill what was left empty with what the chosen function says of itself."""
        if data.get("backend") != Backend.PYTHON or data.get("function") not in python.registry:
            return data
        told = python.definition(data["function"])
        data = data.copy()
        for field, member in _FROM_FUNCTION.items():
            if not data.get(field, "").strip() and member in told:
                data[field] = JSONFormField().prepare_value(told[member])
        return data

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if "configuration" in self.errors:
            return cleaned
        configuration = cleaned.get("configuration")
        if cleaned.get("backend") == Backend.PYTHON:
            if cleaned.get("function"):
                kept = configuration if isinstance(configuration, dict) else {}
                cleaned["configuration"] = {**kept, "function": cleaned["function"]}
            elif not configuration:
                self.add_error("function", _t("Choose the function that the tool runs."))
        elif not configuration:
            self.add_error("configuration", _t("An HTTP tool needs its method and url here."))
        return cleaned


class SecretForm(_SecretBase):
    value = forms.CharField(
        label=_("New value"), strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text=_("Write-only: it is encrypted at once and never shown again."),
    )  # fmt: skip

    class Meta:
        model = Secret
        fields = ["name", "hosts"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.fields["value"].required = False
            self.fields["value"].help_text = _("Write-only. Empty: the stored value stays.")
