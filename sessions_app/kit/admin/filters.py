"""The controls of a list's filters in the console, made from their declarations (`kit.lists.filters`)."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from functools import cache, singledispatch
from typing import TYPE_CHECKING, Any, ClassVar, cast

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_time
from unfold.contrib.filters.admin import ChoicesDropdownFilter

from sessions_app.kit.lists.filters import Between, During, ListFilter, OneOf, TextIs, YesOrNo

if TYPE_CHECKING:
    _Choices = admin.SimpleListFilter
    _Text = admin.SimpleListFilter
    _Moments = admin.FieldListFilter
    _Numbers = admin.FieldListFilter
else:
    from unfold.contrib.filters.admin import DropdownFilter as _Choices
    from unfold.contrib.filters.admin import RangeDateTimeFilter as _Moments
    from unfold.contrib.filters.admin import RangeNumericFilter as _Numbers
    from unfold.contrib.filters.admin import TextFilter as _Text

Control = str | type[Any] | tuple[str, type[Any]]
"""An entry of `ModelAdmin.list_filter`."""
_FINEST = timedelta(microseconds=1)
"""The smallest distance of two moments."""


@cache
def controls(declared: tuple[ListFilter, ...]) -> list[Control]:
    """Return the controls of the filters that the console offers, in the order in which they are declared."""
    return [control(each) for each in declared if each.label is not None]


@singledispatch
def control(declared: ListFilter) -> Control:
    """Return the control of one filter: by default Django's own for its column.

    Kinds that a floor declares for itself are registered there.
    """
    return declared.of


def made(base: type[Any], declared: ListFilter) -> type[Any]:
    """Return a control of this class for the declaration."""
    own: dict[str, Any] = {"declared": declared}
    if issubclass(base, admin.SimpleListFilter):
        own |= {"title": declared.label, "parameter_name": declared.console_parameter, "field_path": declared.of}
    return type(f"{type(declared).__name__}_{declared.name}", (base,), own)


class TextControl(_Text):
    """A text box; the text must match as a whole."""

    declared: ClassVar[ListFilter]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Model]) -> QuerySet[Model]:
        written = (self.value() or "").strip()
        return self.declared.narrow(queryset, written) if written else queryset


class ChoiceControl(_Choices):
    """One of the declared choices, and nothing else."""

    declared: ClassVar[OneOf]

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, Any]]:
        return list(self.declared.offered)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Model]) -> QuerySet[Model]:
        chosen = self.value()
        if not chosen:
            return queryset
        if not getattr(self.declared, "is_open", False) and chosen not in {
            value for value, _words in self.lookup_choices
        }:
            raise IncorrectLookupParameters(self.parameter_name)
        return self.narrowed(queryset, chosen)

    def narrowed(self, queryset: QuerySet[Model], chosen: str) -> QuerySet[Model]:
        return self.declared.narrow(queryset, chosen)


class YesOrNoControl(ChoiceControl):
    declared: ClassVar[YesOrNo]  # type: ignore[assignment]

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, Any]]:
        return [("yes", self.declared.yes), ("no", self.declared.no)]

    def narrowed(self, queryset: QuerySet[Model], chosen: str) -> QuerySet[Model]:
        return self.declared.narrow(queryset, chosen == "yes")


class _FieldControl(admin.FieldListFilter):
    declared: ClassVar[ListFilter | None] = None

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        if self.declared is not None and self.declared.label:
            self.title = cast("Any", self.declared.label)

    def _given(self, part: str) -> str:
        return str(self.used_parameters.get(f"{self.field_path}_{part}") or "").strip()


class NumbersControl(_FieldControl, _Numbers):
    """A range of whole numbers, both ends included."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Model]) -> QuerySet[Model]:
        ends = self._end("from"), self._end("to")
        return (self.declared or Between(name=self.field_path)).narrow(queryset, ends)

    def _end(self, side: str) -> int | None:
        written = self._given(side)
        if written and not (written.isascii() and written.isdecimal() and len(written) < 10):
            raise IncorrectLookupParameters(f"{self.field_path}_{side}")
        return int(written) if written else None


class MomentsControl(_FieldControl, _Moments):
    """A range of time in the hub's zone; a day without a time means its begin or its end."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Model]) -> QuerySet[Model]:
        return (self.declared or During(name=self.field_path)).narrow(queryset, self.bounds())

    def bounds(self) -> tuple[datetime | None, datetime | None]:
        """Return the first moment of the range and the first after it, None where that side is open.

        Raises IncorrectLookupParameters for an invalid time.
        """
        found: list[datetime | None] = []
        for side, default in (("from", time.min), ("to", time.max)):
            try:
                day = parse_date(self._given(f"{side}_0"))
                clock = parse_time(self._given(f"{side}_1")) or default
            except ValueError as error:
                raise IncorrectLookupParameters(self.field_path) from error
            if day is None and self._given(f"{side}_0"):
                raise IncorrectLookupParameters(self.field_path)
            found.append(None if day is None else timezone.make_aware(datetime.combine(day, clock)))
        after, last = found
        try:
            return after, None if last is None else last + _FINEST
        except OverflowError:  # the end of the calendar: no end
            return after, None


@control.register
def _(declared: TextIs) -> Control:
    return made(TextControl, declared)


@control.register
def _(declared: OneOf) -> Control:
    if declared.meant is None:
        return (declared.of, ChoicesDropdownFilter)
    return made(ChoiceControl, declared)


@control.register
def _(declared: YesOrNo) -> Control:
    return made(YesOrNoControl, declared) if declared.yes else declared.of


@control.register
def _(declared: Between) -> Control:
    return (declared.of, made(NumbersControl, declared))


@control.register
def _(declared: During) -> Control:
    return (declared.of, made(MomentsControl, declared))
