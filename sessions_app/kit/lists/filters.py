"""Filters of a list, declared once: the console's controls and REST's parameters are made from the declaration.

`kit.admin.filters` makes the controls, `kit.rest.filters` the parameters with what OpenAPI says of them. What a filter
asks of the database stands here, or where it is declared, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.utils.functional import Promise

Words = str | Promise
Rows = QuerySet[Any, Any]
Choices = Sequence[tuple[str, Words]]


@dataclass(frozen=True, kw_only=True, eq=False)
class ListFilter:
    """One filter of a list. Its class says what is compared, and what a value is."""

    name: str
    """Its parameter over REST."""
    column: str = ""
    """Of the table; empty: the same name."""
    label: Words | None = None
    """The title of its control in the console; empty: that of the column. None: the console does not offer it."""
    parameter: str = ""
    """Its parameter in addresses of the console; empty: the column's name."""
    help_text: str = ""
    """What OpenAPI says of it."""
    over_rest: bool = True
    facet: Words = ""
    """A title, where the values that occur are counted."""
    narrowed: Callable[[Rows, Any], Rows] | None = None
    """What a value finds, where that is not the comparison of the class."""

    def narrow(self, rows: Rows, value: object) -> Rows:
        """Give the rows that the value lets through."""
        return self.compared(rows, value) if self.narrowed is None else self.narrowed(rows, value)

    def compared(self, rows: Rows, value: Any) -> Rows:
        return rows.filter(**{self.of: value})

    @property
    def of(self) -> str:
        return self.column or self.name

    @property
    def console_parameter(self) -> str:
        return self.parameter or self.of


class TextIs(ListFilter):
    """The whole text, blanks included."""


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
    def console_parameter(self) -> str:
        # Django's own control serves a plain column, and names it so.
        return self.parameter or (self.of if self.narrowed else f"{self.of}__exact")


@dataclass(frozen=True, kw_only=True, eq=False)
class YesOrNo(ListFilter):
    """True or false; `yes` and `no` are what the console calls them."""

    yes: Words = ""
    no: Words = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class WholeNumber(ListFilter):
    """A whole number, `least` or more."""

    least: int | None = None


class Between(ListFilter):
    """A pair of whole numbers from 0 on, both included; None: that side is open."""

    def compared(self, rows: Rows, value: tuple[int | None, int | None]) -> Rows:
        return _within(rows, self.of, value, "lte")


class During(ListFilter):
    """A pair of moments, the first included and the last not; None: that side is open."""

    def compared(self, rows: Rows, value: tuple[datetime | None, datetime | None]) -> Rows:
        return _within(rows, self.of, value, "lt")


def _within(rows: Rows, column: str, ends: tuple[object, object], below: str) -> Rows:
    least, most = ends
    rows = rows if least is None else rows.filter(**{f"{column}__gte": least})
    return rows if most is None else rows.filter(**{f"{column}__{below}": most})
