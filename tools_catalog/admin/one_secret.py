"""The page of rows that keep one secret: it goes in by the form, encrypted at once, and never comes out."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import Model
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils.translation import gettext as _t

from sessions_app.history.pages import RecordedAdmin


class OneSecretAdmin(RecordedAdmin):
    secret_fields: ClassVar[tuple[str, str]]
    """Of the form: a new secret; whether the stored one is deleted."""
    settled_fields: ClassVar[tuple[str, ...]]
    """They stay once the row exists: the secret is sealed under them."""
    status_fields: ClassVar[tuple[str, ...]] = ()
    """Of a row that exists."""

    def hidden_fields(self, request: HttpRequest, obj: Any | None) -> tuple[str, ...]:
        if obj is None:
            return self.status_fields
        return () if self.has_change_permission(request, obj) else self.secret_fields

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        return [*self.readonly_fields, *(self.settled_fields if obj is not None else ())]

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        hidden = self.hidden_fields(request, obj)
        shown = [
            (title, {**options, "fields": [each for each in options["fields"] if each not in hidden]})
            for title, options in self.fieldsets or ()
        ]
        return [(title, options) for title, options in shown if options["fields"]]

    def get_form(
        self, request: HttpRequest, obj: Model | None = None, change: bool = False, **kwargs: object
    ) -> type[ModelForm[Model]]:
        closed = {*self.get_readonly_fields(request, obj), *self.secret_fields}
        fields = [
            name
            for _title, options in self.get_fieldsets(request, obj)
            for name in options["fields"]
            if isinstance(name, str) and name not in closed
        ]
        kwargs.setdefault("fields", fields)
        return super().get_form(request, obj, change, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: ModelForm[Model], change: bool) -> None:
        new, deleted = self.secret_fields
        if value := form.cleaned_data.get(new):
            obj.set_secret(value)
            obj.change_reason = _t("new secret") if change else ""
        elif form.cleaned_data.get(deleted):
            obj.set_secret("")
            obj.change_reason = _t("secret deleted")
        super().save_model(request, obj, form, change)
