"""Pages of lists with uncounted rows, for REST and for the console.

A page begins beside the key of a row, so that none costs an offset, and rows that arrive meanwhile move no page.
Subclasses of Keyset bound the reads of one page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from django.db.models import Field, Model, Q, QuerySet
from django.utils import timezone

Key = tuple[Any, ...]
"""The values of the order's columns in one row. A shorter key stands beside all rows that begin with its values."""
_Row = TypeVar("_Row", bound=Model)
_MOST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Order(Generic[_Row]):
    """The order of a list: columns, those that fall with a `-` before them; the last is unique, none is null."""

    model: type[_Row]
    columns: tuple[str, ...]

    def reversed(self) -> Order[_Row]:
        return Order(self.model, tuple(name[1:] if name.startswith("-") else f"-{name}" for name in self.columns))

    def sorted(self, rows: QuerySet[_Row]) -> QuerySet[_Row]:
        return rows.order_by(*self.columns)

    def beyond(self, rows: QuerySet[_Row], key: Key | None) -> QuerySet[_Row]:
        """Return the rows that come after `key`; all of them for None."""
        return rows if key is None else rows.filter(_beyond(list(zip(self.columns, key, strict=False))))

    def key_of(self, row: _Row) -> Key:
        return tuple(getattr(row, name.lstrip("-")) for name in self.columns)

    def key_before(self, key: Key) -> Key | None:
        """Return a key below which the rows at `key` lie; None where its column has no next value."""
        value, step = key[0], 1 if self.columns[0].startswith("-") else -1
        if isinstance(value, int):
            return (min(max(value + step, 0), _MOST),)
        try:
            return (value + step * timedelta(microseconds=1),) if isinstance(value, datetime) else None
        except OverflowError:  # an end of the calendar
            return (value,)

    def read(self, words: Sequence[str]) -> Key:
        """Return the key that an address names; raise ValueError, OverflowError or ValidationError."""
        if not 0 < len(words) <= len(self.columns):
            raise ValueError
        fields = [self.model._meta.get_field(name.lstrip("-")) for name in self.columns[: len(words)]]
        return tuple(_stored(field, word) for field, word in zip(fields, words, strict=True))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysetPage(Generic[_Row]):
    """The rows of a page, in the order of the list, and the keys beside which its neighbours begin."""

    rows: list[_Row]
    onward: Key | None
    """Where the page after this one begins, in the direction of reading; None where no row is known to follow."""
    back: Key | None
    """Where the page the other way begins."""
    reached: Key | None
    """Where reading stopped before the page was full: the rows beyond were not looked at."""


class Keyset(Generic[_Row]):
    """Reads the pages of a list along its order."""

    def __init__(self, rows: QuerySet[_Row], order: Order[_Row], size: int) -> None:
        self.rows = rows
        self.order = order
        self.size = size

    def page(self, begin: Key | None = None, end: Key | None = None, *, backwards: bool = False) -> KeysetPage[_Row]:
        """Return the page of rows that come after `begin`, and before `end` if there is one.

        Backwards, the page is read against the order, so that it lies directly before `begin`.
        """
        order = self.order.reversed() if backwards else self.order
        found, reached = self._read(order, begin, end)
        has_more, found = len(found) > self.size, found[: self.size]
        back = None
        if begin is not None:
            back = order.key_of(found[0]) if found else order.key_before(begin)
        onward = order.key_of(found[-1]) if has_more else None
        return KeysetPage(rows=found[::-1] if backwards else found, onward=onward, back=back, reached=reached)

    def _read(self, order: Order[_Row], begin: Key | None, end: Key | None) -> tuple[list[_Row], Key | None]:
        """Return one row more than the page holds, if there is one, and the key at which reading stopped before."""
        return list(between(self.rows, order, begin, end)[: self.size + 1]), None


class WindowedKeyset(Keyset[_Row]):
    """A page searches a limited number of rows without an index."""

    def __init__(
        self, rows: QuerySet[_Row], order: Order[_Row], size: int, *, among: QuerySet[_Row], window: int
    ) -> None:
        """`among` are the candidate rows found by an index."""
        super().__init__(rows, order, size)
        self.among, self.most = among, window

    def _read(self, order: Order[_Row], begin: Key | None, end: Key | None) -> tuple[list[_Row], Key | None]:
        first = order.columns[0]
        name = first.lstrip("-")
        rows = between(self.rows, order, begin, end)
        values = between(self.among, order, begin, end).values_list(name, flat=True)
        # The values of the last row that the page may look at and of the next one, as far as there are any.
        ends = list(values[self.most - 1 : self.most + 1])
        if ends:
            rows = rows.filter(**{f"{name}__{'gte' if first.startswith('-') else 'lte'}": ends[0]})
        found = list(rows[: self.size + 1])
        return found, (ends[0],) if len(ends) > 1 and len(found) <= self.size else None


def between(rows: QuerySet[_Row], order: Order[_Row], begin: Key | None, end: Key | None) -> QuerySet[_Row]:
    """Return the rows after `begin` and before `end`, in the order."""
    return order.sorted(order.reversed().beyond(order.beyond(rows, begin), end))


def written(key: Key) -> list[str]:
    """Return the words for a key that `Order.read` reads."""
    return [
        value.astimezone(UTC).isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else str(value)
        for value in key
    ]


def _beyond(columns: list[tuple[str, Any]]) -> Q:
    (column, value), *rest = columns
    name, side = column.lstrip("-"), "lt" if column.startswith("-") else "gt"
    if not rest:
        return Q(**{f"{name}__{side}": value})
    # In this form the index by the first column is searched.
    return Q(**{f"{name}__{side}e": value}) & ~(Q(**{name: value}) & ~_beyond(rest))


def _stored(field: Field[Any, Any], word: str) -> Any:
    """Return the value that a column may hold; raise ValueError, OverflowError or ValidationError."""
    value = field.to_python(word)
    if isinstance(value, datetime):
        return value.astimezone(UTC) if timezone.is_aware(value) else timezone.make_aware(value)
    if value is None or "\0" in word or (isinstance(value, int) and not 0 <= value <= _MOST):
        raise ValueError
    return value
