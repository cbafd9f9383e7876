"""Lists over REST: filters that refuse what they do not know, and pages that follow a key, uncounted."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.core.exceptions import ValidationError as Invalid
from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters  # type: ignore[import-untyped]
from django_filters.fields import IsoDateTimeField  # type: ignore[import-untyped]
from django_filters.utils import translate_validation  # type: ignore[import-untyped]
from drf_spectacular.utils import extend_schema_field
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from sessions_app.protocol import json
from sessions_app.protocol.errors import InvalidParams, ParseError
from sessions_app.rest.errors import NoSuchPage

LARGEST_INTEGER = 2**31 - 1
"""What an integer column of PostgreSQL holds."""


class FilterSet(filters.FilterSet):  # type: ignore[misc]
    """Filters that are all declared by hand; what is not declared is refused."""


class ChoiceFilter(filters.ChoiceFilter):  # type: ignore[misc]
    """One of the declared words."""


class _MomentField(IsoDateTimeField):  # type: ignore[misc]
    def to_python(self, value: Any) -> Any:
        moment = super().to_python(value)
        try:
            return moment and moment.astimezone(UTC)
        except OverflowError as error:
            raise Invalid("This moment lies outside the years 1 to 9999 in UTC.") from error


class MomentFilter(filters.IsoDateTimeFilter):  # type: ignore[misc]
    """An ISO 8601 moment; UTC where it names no offset."""

    field_class = _MomentField


@extend_schema_field({"type": "boolean"})
class BooleanFilter(filters.TypedChoiceFilter):  # type: ignore[misc]
    """`true` or `false`. The stock filter takes any other word for "no filter"."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["choices"] = (("true", "true"), ("false", "false"))
        super().__init__(*args, coerce=lambda word: word == "true", **kwargs)


class IntegerFilter(filters.Filter):  # type: ignore[misc]
    field_class = forms.IntegerField

    def __init__(self, *args: Any, least: int = -LARGEST_INTEGER - 1, **kwargs: Any) -> None:
        super().__init__(*args, min_value=least, max_value=LARGEST_INTEGER, **kwargs)
        extend_schema_field({"type": "integer", "minimum": least, "maximum": LARGEST_INTEGER})(self)


class ExactFilter(filters.CharFilter):  # type: ignore[misc]
    """The whole text, blanks included."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, strip=False, **kwargs)


class StrictFilterBackend(filters.DjangoFilterBackend):  # type: ignore[misc]
    """Refuses unknown, repeated and empty query parameters.

    A filter that is ignored shows rows that were not asked for.
    """

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: Any) -> QuerySet[Any]:
        if getattr(view, "detail", False):
            _refuse_strange(request, ())
            return queryset
        rows: QuerySet[Any] = super().filter_queryset(request, queryset, view)
        return rows

    def get_filterset(self, request: Request, queryset: QuerySet[Any], view: Any) -> Any:
        """Refuse what the view does not know. A view names in `parameters` those that are no filters."""
        filterset = self.get_filterset_class(view, queryset)
        pages = KeysetPagination.PARAMETERS if getattr(view, "paginator", None) else ()
        own = getattr(view, "parameters", ())
        _refuse_strange(request, (*(filterset.base_filters if filterset else ()), *pages, *own))
        asked = super().get_filterset(request, queryset, view)
        view.filterset = asked
        return asked

    def valid_filterset(self, request: Request, queryset: QuerySet[Any], view: Any) -> Any:
        """Give the view's filter set, or raise ValidationError; for views that need more of it than its rows."""
        filterset = self.get_filterset(request, queryset, view)
        if not filterset.is_valid():
            raise translate_validation(filterset.errors)
        return filterset


class KeysetPagination(BasePagination):
    """Pages along the view's `ordering`, whose last column is unique.

    A cursor names the row where a page begins, so rows that arrive meanwhile neither repeat nor hide others,
    and nothing is counted.
    """

    PARAMETERS = ("cursor", "limit")
    DEFAULT_LIMIT = 50
    HIGHEST_LIMIT = 500

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        self._request = request
        self._ordering: tuple[str, ...] = view.ordering
        limit = limit_of(request, self.DEFAULT_LIMIT, self.HIGHEST_LIMIT)
        backwards, key = self._cursor(request, queryset)
        ordering = [_reversed(name) for name in self._ordering] if backwards else list(self._ordering)
        rows, reached = self._read(queryset.order_by(*ordering), limit + 1, backwards, key, view)
        beyond = self._key(rows[limit - 1]) if len(rows) > limit else reached
        rows = rows[:limit]
        back = (self._key(rows[0]) if rows else self._over(key, backwards)) if key is not None else None
        if backwards:
            rows.reverse()
        self._next, self._previous = (back, beyond) if backwards else (beyond, back)
        return rows

    def _read(
        self, queryset: Any, wanted: int, backwards: bool, key: list[Any] | None, view: Any
    ) -> tuple[list[Any], list[Any] | None]:
        """Give rows beyond `key`, `wanted` at most, and the key at which reading stopped before that, or None."""
        if key is not None:
            queryset = queryset.filter(_beyond(queryset.query.order_by, key))
        return list(queryset[:wanted]), None

    def _over(self, key: list[Any], backwards: bool) -> list[Any] | None:
        """Give the key from which a page the other way holds the row at `key`; None where that cannot be told."""
        return None

    def _key(self, row: Any) -> list[Any]:
        return [getattr(row, name.lstrip("-")) for name in self._ordering]

    def get_paginated_response(self, data: Any) -> Response:
        return Response(
            {"next": self._url(self._next, "n"), "previous": self._url(self._previous, "p"), "results": data}
        )

    def _cursor(self, request: Request, queryset: QuerySet[Any]) -> tuple[bool, list[Any] | None]:
        word = request.query_params.get("cursor")
        if word is None:
            return False, None
        try:
            raw = base64.b64decode(word.encode(), altchars=b"-_", validate=True)
            direction, *values = json.loads(raw)
            fields = [queryset.model._meta.get_field(name.lstrip("-")) for name in self._ordering]
            if direction not in ("n", "p") or not all(isinstance(value, str) for value in values):
                raise ValueError
            key = [field.to_python(value) for field, value in zip(fields, values, strict=True)]
            if "\0" in word + "".join(values) or not all(_is_storable(value) for value in key):
                raise ValueError
        except (ValueError, TypeError, OverflowError, binascii.Error, Invalid, ParseError) as error:
            raise NoSuchPage from error
        return direction == "p", key

    def _url(self, values: list[Any] | None, direction: str) -> str | None:
        if values is None:
            return None
        texts = [value.isoformat() if hasattr(value, "isoformat") else str(value) for value in values]
        word = base64.urlsafe_b64encode(json.dumps([direction, *texts])).decode()
        return replace_query_param(self._request.build_absolute_uri(), "cursor", word)

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        link = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {"next": link, "previous": link, "results": schema},
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [
            {
                "name": "cursor", "in": "query", "required": False, "schema": {"type": "string"},
                "description": "Where the page begins: taken from `next` or `previous` of an answer.",
            },
            {
                "name": "limit", "in": "query", "required": False, "description": "Rows on a page.",
                "schema": {
                    "type": "integer", "minimum": 1, "maximum": self.HIGHEST_LIMIT,
                    "default": self.DEFAULT_LIMIT,
                },
            },
        ]  # fmt: skip


def limit_of(request: Request, default: int, highest: int) -> int:
    """Give the request's `limit`, from 1 to `highest`, or raise ValidationError."""
    word = request.query_params.get("limit", str(default))
    if word.isascii() and word.isdecimal() and len(word) < 10 and 1 <= int(word) <= highest:
        return int(word)
    raise ValidationError({"limit": [f"Write a whole number from 1 to {highest}."]})


def _is_storable(value: Any) -> bool:
    """Whether the database takes `value`; raises OverflowError for a moment that UTC cannot name."""
    if isinstance(value, datetime):
        return value.tzinfo is not None and value.astimezone(UTC) is not None
    return not isinstance(value, int) or 0 <= value < 2**63


def _refuse_strange(request: Request, known: tuple[str, ...]) -> None:
    strange = sorted(set(request.query_params) - set(known))
    if strange:
        here = f"Known here: {', '.join(sorted(known))}." if known else "This address takes none."
        raise InvalidParams(
            f"Unknown query parameter: {', '.join(name[:60] for name in strange)}. {here}",
            unknown=strange, known=sorted(known),
        )  # fmt: skip
    problems = {}
    for name, values in request.query_params.lists():
        if len(values) > 1:
            problems[name] = ["Give it once."]
        elif not values[0]:
            problems[name] = ["It has no value. Leave the parameter out, or give a value."]
    if problems:
        raise ValidationError(problems)


def _reversed(name: str) -> str:
    return name[1:] if name.startswith("-") else f"-{name}"


def _beyond(ordering: Sequence[str], key: list[Any]) -> Q:
    """The rows that come after `key` in `ordering`."""
    condition, same = Q(), Q()
    for name, value in zip(ordering, key, strict=True):
        column = name.lstrip("-")
        condition |= same & Q(**{f"{column}__{'lt' if name.startswith('-') else 'gt'}": value})
        same &= Q(**{column: value})
    return condition
