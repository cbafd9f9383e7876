"""Rows in and out of REST: stored JSON as it is, and writes through `full_clean()`, as the admin's are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from django.db import models, transaction
from rest_framework import mixins, serializers, viewsets
from rest_framework.relations import MANY_RELATION_KWARGS
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.kit.fields import JSONText
from sessions_app.kit.rest.base import SETTINGS, HubView
from sessions_app.kit.rest.errors import refused_members
from sessions_app.kit.rest.json_fields import JSONObject

_Model = TypeVar("_Model", bound=models.Model)


class StrictText(serializers.CharField):
    """A JSON string; numbers are not taken for one."""

    default_error_messages = {"invalid": "This must be a text."}

    def to_internal_value(self, data: object) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class StrictBoolean(serializers.BooleanField):
    """`true` or `false`, not words for them."""

    def to_internal_value(self, data: object) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class StrictInteger(serializers.IntegerField):
    """A JSON number without a fraction."""

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool | str):
            self.fail("invalid")
        return super().to_internal_value(data)


class StrictFloat(serializers.FloatField):
    """A JSON number."""

    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool | str):
            self.fail("invalid")
        return super().to_internal_value(data)


class StrictMany(serializers.ManyRelatedField):
    """A JSON list; the stock field takes an object for a list of its names."""

    def to_internal_value(self, data: object) -> Iterable[object]:
        if not isinstance(data, list):
            self.fail("not_a_list", input_type=type(data).__name__)
        return super().to_internal_value(data)


class Named(serializers.SlugRelatedField[Any]):
    """Other rows by a name of theirs; with `many` a strict list of names."""

    @classmethod
    def many_init(cls, *args: Any, **kwargs: Any) -> StrictMany:
        own = {name: value for name, value in kwargs.items() if name in MANY_RELATION_KWARGS}
        return StrictMany(child_relation=cls(*args, **kwargs), **own)

    def run_validation(self, data: Any = serializers.empty) -> Any:
        if data == "":  # which would be taken for null
            self.fail("does_not_exist", slug_name=self.slug_field, value=data)
        return super().run_validation(data)

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, str):  # the database would find "0" for the number
            self.fail("invalid")
        return super().to_internal_value(data)


class AskedSerializer(serializers.Serializer[Any]):
    """A request's input that is not a row. Members that are unknown are refused rather than ignored."""

    def to_internal_value(self, data: object) -> Any:
        if isinstance(data, Mapping) and (unknown := data.keys() - self.fields.keys()):
            words = f"Unknown field. Fields here: {', '.join(sorted(self.fields))}."
            raise refused_members((str(name), words) for name in sorted(unknown, key=str))
        return super().to_internal_value(data)


_STRICT = {
    models.CharField: StrictText,
    models.TextField: StrictText,
    models.BooleanField: StrictBoolean,
    models.IntegerField: StrictInteger,
    models.PositiveIntegerField: StrictInteger,
    models.PositiveSmallIntegerField: StrictInteger,
    models.BigIntegerField: StrictInteger,
    models.FloatField: StrictFloat,
    JSONText: JSONObject,
}


@runtime_checkable
class HoldsBack(Protocol):
    """A row of which some edits wait for a second person."""

    def admitted_links(self, links: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return which links may be set now."""

    def waiting_answer(self) -> Mapping[str, Any] | None:
        """Return the answer if the last save held something back."""


class RowSerializer(serializers.ModelSerializer[_Model], Generic[_Model]):
    """A model's row. Members that are unknown, or cannot be changed, are refused rather than ignored."""

    serializer_field_mapping = {**serializers.ModelSerializer.serializer_field_mapping, **_STRICT}

    def to_internal_value(self, data: object) -> Any:
        if isinstance(data, Mapping):
            self._refuse_ignored(data)
        return super().to_internal_value(data)

    def is_valid(self, *, raise_exception: bool = False) -> bool:
        is_valid = super().is_valid(raise_exception=False)
        if raise_exception and not is_valid:
            refusal = serializers.ValidationError(self.errors)
            # A serializer and its fields refer to each other: they would keep the body until garbage is collected.
            own: Any = self
            own.initial_data = own._errors = {}
            raise refusal
        return is_valid

    def _refuse_ignored(self, data: Mapping[str, object]) -> None:
        writable = {name for name, field in self.fields.items() if not field.read_only}
        current = self.to_representation(self.instance) if isinstance(self.instance, models.Model) else {}
        changed = "This cannot be changed. Leave it out, or send it as it is."
        unknown = f"Unknown field. Fields here: {', '.join(sorted(writable))}."
        problems = (
            (str(name), changed if name in current else unknown)
            for name, value in data.items()
            if name not in writable and (name not in current or value != current[name])
        )
        if first := next(problems, None):
            raise refused_members(chain([first], problems))

    def create(self, validated_data: dict[str, object]) -> _Model:
        model: Any = self.Meta.model
        row: _Model = self._write(model(), validated_data)
        return row

    def update(self, instance: _Model, validated_data: dict[str, object]) -> _Model:
        return self._write(instance, validated_data)

    def _write(self, row: _Model, values: dict[str, object]) -> _Model:
        many = {field.name for field in row._meta.many_to_many}
        for name, value in values.items():
            if name not in many:
                setattr(row, name, value)
        row.full_clean()
        links = {name: values[name] for name in many & values.keys()}
        if isinstance(row, HoldsBack):
            links = row.admitted_links(links)
        row.save()
        for name, rows in links.items():
            getattr(row, name).set(rows)
        return row


class RowViewSet(HubView, viewsets.GenericViewSet[_Model], Generic[_Model]):
    """Rows of one model. OPTIONS is not served: the schema has more detail."""

    pagination_class = SETTINGS.DEFAULT_PAGINATION_CLASS
    filter_backends = SETTINGS.DEFAULT_FILTER_BACKENDS
    http_method_names = ["get", "head", "post", "put", "patch", "delete"]

    def finalize_response(self, request: Request, response: Response, *args: object, **kwargs: object) -> Response:
        answer = super().finalize_response(request, response, *args, **kwargs)
        answer["Cache-Control"] = "private, no-store"  # rows of the audit stay out of caches on the way
        return answer


class WritingViewSet(
    mixins.RetrieveModelMixin, mixins.UpdateModelMixin, mixins.ListModelMixin, RowViewSet[_Model], Generic[_Model]
):
    """List, detail, update. An update locks its row, so that two of them make two versions, not one."""

    def get_queryset(self) -> models.QuerySet[_Model]:
        rows = super().get_queryset()
        return rows.select_for_update(of=("self",)) if self.request.method in ("PUT", "PATCH") else rows

    def update(self, request: Request, *args: object, **kwargs: object) -> Response:
        with transaction.atomic():
            return super().update(request, *args, **kwargs)

    def get_serializer(self, *args: Any, **kwargs: Any) -> Any:
        self._written = super().get_serializer(*args, **kwargs)
        return self._written

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Answer 202 if part of the change waits for a second person."""
        written = getattr(self, "_written", None)
        row = written.instance if isinstance(written, serializers.BaseSerializer) else None
        if response.status_code in (200, 201) and isinstance(row, HoldsBack) and (waiting := row.waiting_answer()):
            response.data, response.status_code = waiting, 202
        return super().finalize_response(request, response, *args, **kwargs)


def permissions(model: str) -> dict[str, str]:
    """Return Django's permissions for rows of a model such as `auth.group`, by deed."""
    app, _, name = model.partition(".")
    deeds = {"read": "view", "create": "add", "write": "change", "delete": "delete"}
    return {deed: f"{app}.{verb}_{name}" for deed, verb in deeds.items()}


def attribute(row: Any, request: Request, reason: str) -> tuple[Any, str]:
    """Attribute a change to its author and reason in the row's history; return the author (None for a key) and the
    reason.

    A key is no user of the database, so its name leads the reason.
    """
    is_user = isinstance(request.user, models.Model)
    author = request.user if is_user else None
    if not is_user:
        reason = f"{request.user}: {reason}" if reason else str(request.user)
    row.change_reason = reason
    return author, reason


class ReasonedSerializer(RowSerializer[Any]):
    """A row whose edit may have a reason, stored in its history."""

    reason = StrictText(
        write_only=True, required=False, allow_blank=True, max_length=100, help_text="Why. Kept with the history."
    )

    def _write(self, row: object, values: dict[str, Any]) -> Any:
        attribute(row, self.context["request"], values.pop("reason", ""))
        return super()._write(row, values)
