"""Filters of a list, declared once: the search, the console's controls and REST's parameters are made from them.

`kit.lists.searching` reads `key:value`, `kit.admin.filters` makes the controls, `kit.rest.filters` the parameters
with their OpenAPI descriptions. A filter's query is defined here, or at its declaration, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.functional import Promise

Words = str | Promise
Rows = QuerySet[Any, Any]
Choices = Sequence[tuple[str, Words]]
Known = Callable[[str], list[tuple[str, str]]]
"""Returns, for the text of a value, the possible values with their labels; few, and fast."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ListFilter:
    """One filter of a list. Its class defines the comparison and the type of values."""

    name: str
    """Its parameter over REST."""
    column: str = ""
    """Of the table; empty: the same name."""
    label: Words | None = None
    """The title of its control in the console; empty: that of the column. None: the console does not offer it."""
    parameter: str = ""
    """Its parameter in addresses of the console; empty: the column's name."""
    help_text: str = ""
    """Its OpenAPI description."""
    over_rest: bool = True
    key: str = ""
    """Its key in the search, in `key:value`; empty: its name."""
    known: Known | None = None
    """Values that the search offers, where the class does not know them."""
    facet: Words = ""
    """A title, where the values that occur are counted."""
    meant: Callable[[Any], Q] | None = None
    """The condition of a value, if it is not the comparison of the class."""

    def narrow(self, rows: Rows, value: object) -> Rows:
        """Return the rows that the value lets through."""
        return rows.filter(self.found_by(value))

    def found_by(self, *values: object) -> Q:
        """Return the condition that a row has one of the values."""
        if len(values) == 1 or self.meant is not None:
            return reduce(or_, [self.compared(value) if self.meant is None else self.meant(value) for value in values])
        return self.one_of(values)

    def compared(self, value: Any) -> Q:
        return Q(**{self.of: value})

    def one_of(self, values: Sequence[Any]) -> Q:
        return reduce(or_, [self.compared(value) for value in values])

    @property
    def of(self) -> str:
        return self.column or self.name

    @property
    def search_key(self) -> str:
        return self.key or self.name

    @property
    def takes_several(self) -> bool:
        """Whether several values mean one of them, and whether a value can be excluded, over REST too."""
        return False

    @property
    def console_parameter(self) -> str:
        return self.parameter or self.of


class TextIs(ListFilter):
    """The whole text, blanks included."""

    @property
    def takes_several(self) -> bool:
        return True

    def one_of(self, values: Sequence[Any]) -> Q:
        return Q(**{f"{self.of}__in": values})


@dataclass(frozen=True, kw_only=True, eq=False)
class OneOf(ListFilter):
    """One of the declared words."""

    choices: Choices | Callable[[], Choices]
    is_open: bool = False
    """Other words are taken than those that are offered."""

    @property
    def offered(self) -> Choices:
        return self.choices() if callable(self.choices) else self.choices

    @property
    def takes_several(self) -> bool:
        return True

    def one_of(self, values: Sequence[Any]) -> Q:
        return Q(**{f"{self.of}__in": values})

    @property
    def console_parameter(self) -> str:
        # Django's own control serves a plain column, and names it so.
        return self.parameter or (self.of if self.meant else f"{self.of}__exact")


@dataclass(frozen=True, kw_only=True, eq=False)
class YesOrNo(ListFilter):
    """True or false, shown as `yes` and `no` in the console."""

    yes: Words = ""
    no: Words = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class WholeNumber(ListFilter):
    """A whole number, `least` or more."""

    least: int | None = None


class Between(ListFilter):
    """A pair of whole numbers from 0 on, both included; None: that side is open."""

    def compared(self, value: tuple[int | None, int | None]) -> Q:
        return _within(self.of, value, "lte")


class During(ListFilter):
    """A pair of moments, the first included and the last not; None: that side is open."""

    def compared(self, value: tuple[datetime | None, datetime | None]) -> Q:
        return _within(self.of, value, "lt")


@dataclass(frozen=True, slots=True)
class Demand:
    """A demand on one filter: that a row has one of the values, or none of them."""

    of: ListFilter
    values: tuple[Any, ...]
    is_excluded: bool = False

    def narrow(self, rows: Rows) -> Rows:
        found = self.of.found_by(*self.values)
        return rows.filter(~found if self.is_excluded else found)


def _within(column: str, ends: tuple[object, object], below: str) -> Q:
    least, most = ends
    found = Q() if least is None else Q(**{f"{column}__gte": least})
    return found if most is None else found & Q(**{f"{column}__{below}": most})
