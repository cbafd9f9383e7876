"""Rows chosen in a form. A value that is no key is an error of the field, as of Django's plain selects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib.admin.widgets import AutocompleteMixin, AutocompleteSelect, AutocompleteSelectMultiple
from django.core.exceptions import ValidationError
from django.forms import ModelMultipleChoiceField


class _ShowsKeysOnly(AutocompleteMixin):
    """Looks up possible keys alone. Django asks the database for everything when it shows a rejected form again."""

    def optgroups(self, name: str, value: Sequence[str], attr: Any = None) -> Any:
        return super().optgroups(name, [each for each in value if self._is_key(each)], attr)

    def _is_key(self, text: str) -> bool:
        related: Any = self.field.remote_field
        target = related.model._meta.get_field(getattr(related, "field_name", None) or related.model._meta.pk.name)
        try:
            target.run_validators(target.to_python(text))
        except ValidationError:
            return False
        return "\0" not in text


class ChosenRow(_ShowsKeysOnly, AutocompleteSelect):
    """The widget of a foreign key in `autocomplete_fields`."""


class ChosenRows(_ShowsKeysOnly, AutocompleteSelectMultiple):
    """The widget of links in `autocomplete_fields`."""


class LinksField(ModelMultipleChoiceField):  # type: ignore[type-arg]  # generic in the stubs alone
    """Links to rows. A number beyond those of the database is no key."""

    def _check_values(self, value: Sequence[Any]) -> Any:
        try:
            return super()._check_values(value)  # type: ignore[misc]  # private, so not in the stubs
        except OverflowError as error:
            longest = max((str(each) for each in value), key=len)
            told = {"pk": longest[:60]}
            raise ValidationError(self.error_messages["invalid_pk_value"], "invalid_pk_value", told) from error
