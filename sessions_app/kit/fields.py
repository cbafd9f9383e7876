"""Model fields that every floor uses."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from django import forms
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from sessions_app.protocol import json
from sessions_app.protocol.json import Json

logger = logging.getLogger(__name__)

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

    def from_db_value(self, value: str | None, expression: object, connection: object) -> Json:
        return None if value is None else json.loads_stored(value)

    def to_python(self, value: object) -> Json:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value.encode())
        except Exception as error:
            raise ValidationError(_("This is not valid JSON: %(why)s"), params={"why": error}) from error

    def get_prep_value(self, value: object) -> str | None:
        return None if value is None else json.dumps(value).decode()

    def value_to_string(self, obj: models.Model) -> Json:
        return self.value_from_object(obj)

    def save_form_data(self, instance: models.Model, data: object) -> None:
        """Take a field that was emptied for one with the default: null is no value of most."""
        super().save_form_data(
            instance, self.get_default() if data is None and not self.null and self.has_default() else data
        )

    def formfield(self, **kwargs: Any) -> forms.Field | None:
        return super(models.TextField, self).formfield(**{"form_class": forms.JSONField, **kwargs})

    def validate(self, value: object, model_instance: models.Model | None) -> None:
        if value in ({}, [], "", 0, False) and self.blank:
            return
        super().validate(value, model_instance)


_Row = TypeVar("_Row", bound=models.Model)


def readable_rows(rows: QuerySet[_Row]) -> list[_Row]:
    """Return all rows of a queryset, or those that can be read where the text of one is no JSON."""
    try:
        return list(rows)
    except ValueError:
        found = []
        for key in list(rows.values_list("pk", flat=True)):
            try:
                found.append(rows.get(pk=key))
            except ValueError:
                logger.exception("The %s with id %s cannot be read and is left out", rows.model.__name__, key)
        return found
