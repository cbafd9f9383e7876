"""REST's query parameters for the filters of a list, made from their declarations (`kit.lists.filters`).

Undeclared parameters are refused: an ignored filter would return unwanted rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC
from functools import cache, singledispatch
from typing import Any

from django import forms
from django.core.exceptions import ValidationError as Invalid
from django.db.models import Model, QuerySet
from django_filters import rest_framework as filters  # type: ignore[import-untyped]
from django_filters.fields import IsoDateTimeField  # type: ignore[import-untyped]
from drf_spectacular.utils import extend_schema_field
from rest_framework.exceptions import ValidationError
from rest_framework.fields import get_error_detail
from rest_framework.request import Request

from sessions_app.kit.lists.filters import (
    Between,
    Choices,
    Demand,
    During,
    ListFilter,
    OneOf,
    TextIs,
    WholeNumber,
    YesOrNo,
)
from sessions_app.kit.rest.lists import KeysetPagination
from sessions_app.protocol.errors import InvalidParams

LARGEST_INTEGER = 2**31 - 1
"""The maximum of PostgreSQL's integer column."""
MOST_VALUES = 50
"""Of one parameter."""
_NOT = "not_"
_NONE = (None, "")


class _MomentField(IsoDateTimeField):  # type: ignore[misc]
    def to_python(self, value: object) -> Any:
        moment = super().to_python(value)
        try:
            return moment and moment.astimezone(UTC)
        except OverflowError as error:
            raise Invalid("This moment lies outside the years 1 to 9999 in UTC.") from error


class MomentParameter(filters.IsoDateTimeFilter):  # type: ignore[misc]
    """An ISO 8601 moment; UTC where it names no offset."""

    field_class = _MomentField


@extend_schema_field({"type": "boolean"})
class BooleanParameter(filters.TypedChoiceFilter):  # type: ignore[misc]
    """`true` or `false`. The stock filter takes any other word for "no filter"."""

    def __init__(self, **options: object) -> None:
        options["choices"] = (("true", "true"), ("false", "false"))
        super().__init__(coerce=lambda word: word == "true", **options)


class IntegerParameter(filters.Filter):  # type: ignore[misc]
    field_class = forms.IntegerField

    def __init__(self, *, least: int | None, **options: object) -> None:
        least = -LARGEST_INTEGER - 1 if least is None else least
        super().__init__(min_value=least, max_value=LARGEST_INTEGER, **options)
        extend_schema_field({"type": "integer", "minimum": least, "maximum": LARGEST_INTEGER})(self)


class _SeveralField(forms.Field):
    """The value of a repeatable parameter: a list of texts, each not blank."""

    widget = forms.MultipleHiddenInput

    def __init__(self, *, choices: Choices = (), is_open: bool = True, **options: Any) -> None:
        self.known, self.is_open = [str(word) for word, _label in choices], is_open
        super().__init__(**options)

    def clean(self, value: Any) -> list[str]:
        given = [value] if isinstance(value, str) else value or []
        if len(given) > MOST_VALUES:
            raise Invalid(f"Give at most {MOST_VALUES} values.")
        values = list(dict.fromkeys(given))
        strange = [] if self.is_open else [word for word in values if word not in self.known]
        if strange:
            raise Invalid(f"{strange[0][:60]!r} is none of its values. They are: {', '.join(self.known)}.")
        if any("\0" in word for word in values):
            raise Invalid("A text holds no NUL.")
        return values


class SeveralParameter(filters.Filter):  # type: ignore[misc]
    """One value, or several as the parameter repeated: a row has one of them."""

    field_class = _SeveralField

    def __init__(self, *, choices: Choices | Callable[[], Choices] = (), is_open: bool = True, **options: Any) -> None:
        offered = choices() if callable(choices) else choices
        super().__init__(choices=offered, is_open=is_open, **options)
        each: dict[str, Any] = {"type": "string"}
        if not is_open:
            each["enum"] = [str(word) for word, _label in offered]
        extend_schema_field({"type": "array", "items": each, "maxItems": MOST_VALUES})(self)


@singledispatch
def parameters(declared: ListFilter) -> dict[str, filters.Filter]:
    """Return the parameters of one filter by name; kinds that a floor declares for itself are registered there."""
    raise TypeError(f"No parameter is known for {type(declared).__name__}.")


@parameters.register
def _(declared: TextIs) -> dict[str, filters.Filter]:
    return _several(declared)


@parameters.register
def _(declared: OneOf) -> dict[str, filters.Filter]:
    return _several(declared, choices=declared.choices, is_open=declared.is_open)


def _several(declared: ListFilter, **options: Any) -> dict[str, filters.Filter]:
    """Return the parameter, and the one that excludes values."""
    without = _described(declared) | {"help_text": f"Rows with none of these; see `{declared.name}`."}
    return {
        declared.name: SeveralParameter(**options, **_described(declared)),
        f"{_NOT}{declared.name}": SeveralParameter(**options, **without),
    }


@parameters.register
def _(declared: YesOrNo) -> dict[str, filters.Filter]:
    return {declared.name: BooleanParameter(**_described(declared))}


@parameters.register
def _(declared: WholeNumber) -> dict[str, filters.Filter]:
    return {declared.name: IntegerParameter(least=declared.least, **_described(declared))}


@parameters.register
def _(declared: Between) -> dict[str, filters.Filter]:
    return {f"{end}_{declared.name}": IntegerParameter(least=0, **_described(declared)) for end in ("min", "max")}


@parameters.register
def _(declared: During) -> dict[str, filters.Filter]:
    ends = {"after": "included", "before": "excluded"}
    words = "ISO 8601, this moment {}; without an offset it is UTC."
    return {
        f"{declared.name}_{end}": MomentParameter(field_name=declared.of, help_text=words.format(word))
        for end, word in ends.items()
    }


@cache
def _names(declared: ListFilter) -> tuple[str, ...]:
    return tuple(parameters(declared))


def _described(declared: ListFilter) -> dict[str, Any]:
    return {"field_name": declared.of, **({"help_text": declared.help_text} if declared.help_text else {})}


class FilterSet(filters.FilterSet):  # type: ignore[misc]
    """The parameters of the declared filters, and the rows that they let through."""

    declared: Sequence[ListFilter] = ()

    @classmethod
    def get_filters(cls) -> dict[str, filters.Filter]:
        offered = [each for each in cls.declared if each.over_rest]
        return {name: made for each in offered for name, made in parameters(each).items()}

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        for each in self.demands():
            queryset = each.narrow(queryset)
        return queryset

    def demands(self) -> list[Demand]:
        """Return the request's demands on each filter."""
        return [found for each in self.declared if each.over_rest for found in self._demands(each)]

    def _demands(self, declared: ListFilter) -> Iterator[Demand]:
        values = tuple(self.form.cleaned_data.get(name) for name in _names(declared))
        if declared.takes_several:
            for texts, is_excluded in zip(values, (False, True), strict=True):
                if texts:
                    yield Demand(declared, tuple(texts), is_excluded)
        elif any(value not in _NONE for value in values):
            yield Demand(declared, (values if len(values) > 1 else values[0],))


@cache
def filter_set(model: type[Model], declared: Sequence[ListFilter]) -> type[FilterSet]:
    """Return the filter set of a list that declares its filters and needs no more of them."""
    meta = type("Meta", (), {"model": model, "fields": []})
    return type(f"{model.__name__}Filters", (FilterSet,), {"declared": declared, "Meta": meta})


class StrictFilterBackend(filters.DjangoFilterBackend):  # type: ignore[misc]
    """Narrows a list by the filters that its view declares: `filters`, or a `filterset_class` made of them.

    Refuses unknown, repeated and empty query parameters.
    """

    def get_filterset_class(self, view: object, queryset: QuerySet[Model] | None = None) -> type[FilterSet] | None:
        own: type[FilterSet] | None = getattr(view, "filterset_class", None)
        declared = getattr(view, "filters", ())
        if own is not None or not declared or queryset is None:
            return own
        model: type[Model] = queryset.model
        return filter_set(model, declared)

    def filter_queryset(self, request: Request, queryset: QuerySet[Model], view: object) -> QuerySet[Model]:
        if getattr(view, "detail", False):
            refuse_strange(request, ())
            return queryset
        filterset = self.valid_filterset(request, queryset, view)
        return queryset if filterset is None else filterset.qs

    def get_filterset(self, request: Request, queryset: QuerySet[Model], view: object) -> Any:
        """Refuse unknown parameters. A view names in `parameters` those that are no filters."""
        filterset = self.get_filterset_class(view, queryset)
        pages = KeysetPagination.PARAMETERS if getattr(view, "paginator", None) else ()
        own = getattr(view, "parameters", ())
        known = filterset.base_filters if filterset else {}
        several = [name for name, each in known.items() if isinstance(each, SeveralParameter)]
        refuse_strange(request, (*known, *pages, *own), several)
        return super().get_filterset(request, queryset, view)

    def valid_filterset(self, request: Request, queryset: QuerySet[Model], view: object) -> Any:
        """Return the view's filter set, None where it has none, or raise ValidationError.

        The library's own translation formats each message, and so fails where a value with `%` is quoted in one.
        """
        filterset = self.get_filterset(request, queryset, view)
        if filterset is not None and not filterset.is_valid():
            problems = filterset.errors.as_data()
            raise ValidationError({name: get_error_detail(Invalid(found)) for name, found in problems.items()})
        return filterset


def refuse_strange(request: Request, known: tuple[str, ...], several: Sequence[str] = ()) -> None:
    """Raise InvalidParams for unknown parameters, ValidationError for those without a value or with several."""
    strange = sorted(set(request.query_params) - set(known))
    if strange:
        here = f"Known here: {', '.join(sorted(known))}." if known else "This address takes none."
        raise InvalidParams(
            f"Unknown query parameter: {', '.join(name[:60] for name in strange)}. {here}",
            unknown=strange,
            known=sorted(known),
        )
    problems = {}
    for name, values in request.query_params.lists():
        if len(values) > 1 and name not in several:
            problems[name] = ["Give it once."]
        elif not all(values):
            problems[name] = ["It has no value. Leave the parameter out, or give a value."]
    if problems:
        raise ValidationError(problems)
