"""JSON in forms of the admin: an editor, and a field that reads by the hub's strict rules."""

from __future__ import annotations

import json as stdlib

from django import forms
from django.core.exceptions import ValidationError
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError
from sessions_app.protocol.json import Json


class JSONEditor(forms.Textarea):
    """A text editor for JSON that keeps its input; without scripts it is a plain text area."""

    template_name = "admin/hub/json_editor.html"

    class Media:
        css = {"all": ["django_svelte_jsoneditor/css/svelte_jsoneditor.css"]}
        js = [forms.Script("mcphub/json_editor.js", type="module")] if hasattr(forms, "Script") else []

    def __init__(self, attrs: dict[str, object] | None = None) -> None:
        super().__init__({"rows": 14, "spellcheck": "false", "class": "hub-json-text", **(attrs or {})})

    def _render(self, template_name: str, context: dict[str, object], renderer: object = None) -> SafeString:
        # The renderer of forms looks into applications only; this template stands with the project's pages.
        return render_to_string(template_name, context)


class JSONFormField(forms.JSONField):
    """Reads JSON by the hub's own strict rules, so that an error names line and column."""

    widget = JSONEditor
    empty_values = [None, ""]  # [] and {} are values

    def to_python(self, value: object) -> Json:
        if value in self.empty_values:
            return None
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value.encode("utf-8", "surrogatepass"))
        except ParseError as error:
            why = str(error).replace("The body", "The text")
            raise ValidationError(_("Correct the JSON. %(why)s"), code="invalid", params={"why": why}) from error

    def bound_data(self, data: object, initial: object) -> object:
        return data  # as it was typed; the page shows it again beside the error

    def prepare_value(self, value: object) -> str:
        if isinstance(value, str) or value is None:
            return value or ""
        return stdlib.dumps(value, indent=2, ensure_ascii=False)

    def has_changed(self, initial: object, data: object) -> bool:
        try:
            return stdlib.dumps(initial) != stdlib.dumps(self.to_python(data))
        except ValidationError:
            return True
