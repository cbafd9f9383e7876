"""A form made from a tool's input schema, and the arguments that its answers mean."""

from __future__ import annotations

import json as stdlib
from collections.abc import Mapping
from typing import Any, cast

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from sessions_app.kit.admin.json_field import JSONEditor, JSONFormField
from sessions_app.kit.shown import clipped, visible
from sessions_app.protocol.json import Json

_LONG_TEXT = 200
_UNSENT = object()
_REST = "rest"


class TryForm(forms.Form):
    """One field for each property, named by number, since a property may have any name."""

    names: Mapping[str, str]
    """Field -> property."""

    def arguments(self) -> dict[str, Json]:
        """Return the arguments to send: empty fields are absent."""
        sent = dict(self.cleaned_data.get(_REST) or {})
        for field, name in self.names.items():
            value = self.cleaned_data.get(field, _UNSENT)
            if value is not _UNSENT:
                sent[name] = value
        return sent

    def clean(self) -> dict[str, object]:
        super().clean()
        cleaned: dict[str, Any] = self.cleaned_data
        for field in self.names:
            made = self.fields[field]
            is_empty_text = isinstance(made, _Text) and made.required
            if self.data.get(self.add_prefix(field), "") == "" and not is_empty_text:
                cleaned.pop(field, None)
        rest = cleaned.get(_REST)
        if rest is not None and not isinstance(rest, dict):
            self.add_error(_REST, ValidationError(_("Enter one JSON object.")))
        return cleaned


class _Choice(forms.TypedChoiceField):
    """A choice of JSON values; each is sent as it stands in the schema."""

    def __init__(self, values: list[Json], **kwargs: Any) -> None:
        choices = [(stdlib.dumps(value), value if isinstance(value, str) else stdlib.dumps(value)) for value in values]
        super().__init__(
            choices=[("", "—"), *((key, clipped(word, 100)) for key, word in choices)],
            coerce=stdlib.loads,
            empty_value=None,
            widget=UnfoldAdminSelectWidget,
            **kwargs,
        )


class _Text(forms.CharField):
    """A required text may be empty: the tool's schema decides whether that is valid."""

    def validate(self, value: object) -> None:
        return None


class _JsonArguments(forms.IntegerField):
    widget = UnfoldAdminIntegerFieldWidget


def form_for(schema: Mapping[str, Json], data: object = None) -> TryForm:
    """Return the form for a tool's input schema, filled with `data` where it was sent."""
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    required = set(required) if isinstance(required, list) else set()
    fields: dict[str, forms.Field] = {}
    names: dict[str, str] = {}
    for number, (name, described) in enumerate(properties.items()):
        fields[f"argument_{number}"] = _field(name, _resolved(described, schema), name in required)
        names[f"argument_{number}"] = name
    if _admits_more(schema, properties):
        fields[_REST] = JSONFormField(
            label=_("More arguments, as a JSON object"), required=False, widget=JSONEditor({"rows": 5})
        )
    form = type("ToolForm", (TryForm,), {**fields, "names": names})(data)
    return cast(TryForm, form)


def _admits_more(schema: Mapping[str, Json], properties: Mapping[str, Json]) -> bool:
    keywords = {"patternProperties", "oneOf", "anyOf", "allOf", "if", "$ref"} & set(schema)
    if keywords or isinstance(schema.get("additionalProperties"), dict):
        return True
    return not properties and schema.get("additionalProperties", True) is not False


def _resolved(described: Json, root: Mapping[str, Json]) -> dict[str, Json]:
    """Follow one local reference and take the one alternative beside null; more complex schemas stay JSON text."""
    found: dict[str, Json] = described if isinstance(described, dict) else {}
    for key in ("anyOf", "oneOf"):
        options = found.get(key)
        if isinstance(options, list):
            real = [option for option in options if isinstance(option, dict) and option.get("type") != "null"]
            if len(real) == 1:
                found = {**real[0], **{name: value for name, value in found.items() if name != key}}
    reference = found.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        target: Json = root
        for step in reference[2:].split("/"):
            target = target.get(step) if isinstance(target, dict) else None
        if isinstance(target, dict):
            found = {**target, **{name: value for name, value in found.items() if name != "$ref"}}
    return found


def _field(name: str, described: Mapping[str, Json], required: bool) -> forms.Field:
    kind = described.get("type")
    if isinstance(kind, list):
        real = [one for one in kind if one != "null"]
        kind = real[0] if len(real) == 1 else None
    words: dict[str, Any] = {"label": clipped(described.get("title") or name, 80), "help_text": _help(name, described)}
    default = described.get("default")
    if "const" in described or isinstance(described.get("enum"), list):
        values = [described["const"]] if "const" in described else described["enum"]
        initial = (
            stdlib.dumps(default)
            if "default" in described
            else (stdlib.dumps(values[0]) if required and values else "")
        )
        return _Choice(values, required=required, initial=initial, **words)
    if kind == "boolean":
        initial = stdlib.dumps(default) if isinstance(default, bool) else ""
        return _Choice([True, False], required=required, initial=initial, **words)
    if kind == "integer":
        return _JsonArguments(required=required, initial=default, **words)
    if kind == "number":
        # The browser's own number box refuses what JSON allows, such as 1e-7.
        return forms.FloatField(required=required, initial=default, widget=UnfoldAdminTextInputWidget, **words)
    if kind == "string":
        limit = described.get("maxLength")
        is_long = (isinstance(limit, int) and limit > _LONG_TEXT) or "\n" in str(default or "")
        widget = UnfoldAdminTextareaWidget if is_long else UnfoldAdminTextInputWidget
        return _Text(required=required, initial=default, strip=False, widget=widget, **words)
    return JSONFormField(required=required, initial=default, widget=JSONEditor({"rows": 6}), **words)


def _help(name: str, described: Mapping[str, Json]) -> str:
    bounds = [
        f"{key}: {described[key]}"
        for key in (
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "minLength",
            "maxLength",
            "pattern",
            "format",
        )
        if isinstance(described.get(key), str | int | float)
    ]
    shown = described.get("type")
    kind = ", ".join(map(str, shown)) if isinstance(shown, list) else str(shown or "JSON")
    facts = ", ".join([visible(name, one_line=True), kind, *(visible(bound, one_line=True) for bound in bounds)])
    description = described.get("description")
    return f"{visible(description)} ({facts})" if isinstance(description, str) and description else facts
