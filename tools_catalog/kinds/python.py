"""Tools that are Python functions, registered by `@tool`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from tools_catalog import requirements
from tools_catalog.backends import python
from tools_catalog.call.base import Json
from tools_catalog.kinds.registry import Basis, DefinedTool, ToolKind, register

if TYPE_CHECKING:
    from django import forms
    from django.http import QueryDict

_FROM_FUNCTION = {
    "name": "name",
    "title": "title",
    "description": "description",
    "input_schema": "inputSchema",
    "output_schema": "outputSchema",
}
_FLAGS = ("read_only", "destructive", "idempotent", "open_world", "timeout_seconds")


@register
class PythonKind(ToolKind):
    name = "python"
    label = _("Python function")
    short_label = "Python"
    about = _("A function of this hub, or of an app installed with it. It fills in the form.")
    edits_configuration = False
    form_fields = ("function",)
    DOES = ("function",)

    def offered(self) -> Mapping[str, Sequence[str]]:
        """Return the registered functions, those without a tool first."""
        from tools_catalog.models import McpToolDefinition

        tools = McpToolDefinition.objects.filter(backend=self.name).values_list("configuration", flat=True)
        served = {configuration.get("function") for configuration in tools}
        return {"function": sorted(python.registry, key=lambda name: (name in served, name))}

    def initial(self, chosen: Mapping[str, str]) -> dict[str, Json]:
        reference = chosen.get("function", "")
        if reference not in python.registry:
            return {}
        known = python.definition(reference)
        filled = {field: known[member] for field, member in _FROM_FUNCTION.items() if known.get(member) is not None}
        return {**filled, **{name: known[name] for name in _FLAGS if known[name] is not None}, "function": reference}

    def check(self, tool: DefinedTool) -> None:
        reference = tool.configuration.get("function")
        if not isinstance(reference, str) or reference not in python.registry:
            raise ValueError(
                _t("No function named %(name)r is registered. Registered: %(known)s")
                % {"name": reference, "known": ", ".join(sorted(python.registry)) or "-"}
            )

    def basis(self, tool: DefinedTool, ground: object) -> Basis:
        return Basis(
            make=lambda: python.PythonBackend(tool.configuration["function"]),
            why_not=requirements.why_not(tool.requirements, None),
        )

    def source(self, configuration: Mapping[str, Json]) -> str:
        return str(configuration.get("function", "")).rpartition(":")[2]

    def completed(self, entry: dict[str, Json], members: Iterable[str]) -> dict[str, Json]:
        """Missing members of an entry come from the function."""
        reference = entry.get("configuration", {}).get("function")
        if not isinstance(reference, str):
            raise ValueError('configuration: a python tool needs {"function": "module:name"}.')
        try:
            known = python.definition(reference)
        except LookupError as error:
            raise ValueError(f"configuration: {error}") from error
        return {**{name: value for name, value in known.items() if name in members and value is not None}, **entry}

    def make_form_fields(self, configuration: Mapping[str, Json]) -> dict[str, forms.Field]:
        from django import forms
        from unfold.widgets import UnfoldAdminSelectWidget

        function = forms.ChoiceField(
            label=_("Function"),
            required=False,
            widget=UnfoldAdminSelectWidget,
            choices=[("", "—"), *((name, name) for name in sorted(python.registry))],
            initial=configuration.get("function", ""),
            help_text=_("Blank fields are filled in from the function when the tool is added."),
        )
        return {"function": function}

    def completed_form(self, data: QueryDict) -> QueryDict:
        from sessions_app.kit.admin.json_field import JSONFormField

        if data.get("function") not in python.registry:
            return data
        defaults = python.definition(str(data["function"]))
        data = data.copy()
        for field, member in _FROM_FUNCTION.items():
            if not str(data.get(field, "")).strip() and member in defaults:
                data[field] = JSONFormField().prepare_value(defaults[member])
        return data

    def clean_form(self, form: forms.ModelForm, cleaned: dict[str, Json]) -> None:  # type: ignore[type-arg]
        configuration = cleaned.get("configuration")
        if cleaned.get("function"):
            kept = configuration if isinstance(configuration, dict) else {}
            cleaned["configuration"] = {**kept, "function": cleaned["function"]}
        elif not configuration:
            form.add_error("function", _t("Choose the function that the tool runs."))
