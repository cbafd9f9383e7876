"""Model fields that every floor uses."""

from __future__ import annotations

import json as stdlib
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _

from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError

if TYPE_CHECKING:
    _Text = models.TextField[Any, Any]
else:
    _Text = models.TextField


class JSONText(_Text):
    """JSON kept as text, so that key order, numbers and every keyword come back as they were written.

    `jsonb` reorders keys, turns `1e2` into `100` and refuses NUL. Schemas and audit bodies must not change.
    """

    description = "JSON, kept as text"

    if TYPE_CHECKING:  # what the plugin of the type checker reads
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        if value is None:
            return None
        try:
            return json.loads(value.encode(), max_depth=512)
        except ParseError:
            # A tool may have answered what clients may not send: a lone surrogate, an integer beyond 64 bits.
            return stdlib.loads(value)

    def to_python(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value.encode())
        except Exception as error:
            raise ValidationError(_("This is not valid JSON: %(why)s"), params={"why": error}) from error

    def get_prep_value(self, value: Any) -> str | None:
        return None if value is None else json.dumps(value).decode()

    def value_to_string(self, obj: models.Model) -> Any:
        return self.value_from_object(obj)

    def formfield(self, **kwargs: Any) -> Any:
        return super(models.TextField, self).formfield(**{"form_class": forms.JSONField, **kwargs})

    def validate(self, value: Any, model_instance: models.Model | None) -> None:
        if value in ({}, [], "", 0, False) and self.blank:
            return
        super().validate(value, model_instance)
