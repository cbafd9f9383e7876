"""The page of a row: facts, figures of its calls, its users, waiting decisions, its history, and its form in parts.

An admin class that names `page_facts` has such a page. Each floor adds its parts with `adds_to_page`, so a new kind of
row gets all of them by one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.contrib.admin.utils import label_for_field, lookup_field
from django.db.models import Manager, Model, QuerySet
from django.forms import BoundField
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import strip_tags
from django.utils.safestring import SafeString
from django.utils.text import capfirst

from sessions_app.kit.shown import clipped

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

    from sessions_app.kit.admin.base import HubAdmin

_MOST_VALUES, _MOST_CHARACTERS = 5, 60
_MOST_BESIDE = 4
"""Columns of a table that has room for another beside it."""


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A number about the row, with a link to the counted rows."""

    title: _StrOrPromise
    words: object
    link: str = ""
    kind: str = ""
    """`bad` for one that needs attention."""


@dataclass(frozen=True, slots=True)
class PageWaiting:
    """A decision about the row that waits for a person."""

    words: object
    link: str


@dataclass(frozen=True, slots=True)
class PageTable:
    """Rows of other tables that concern the row; cells are text, or safe HTML."""

    name: str
    title: _StrOrPromise
    head: Sequence[_StrOrPromise]
    rows: Sequence[Sequence[object]]
    empty: _StrOrPromise
    link: str = ""
    link_words: _StrOrPromise = ""
    note: _StrOrPromise = ""

    def labelled(self) -> Iterator[list[tuple[_StrOrPromise, object]]]:
        """Return each row with the title of each cell: on a phone a row is a card."""
        return (list(zip(self.head, row, strict=True)) for row in self.rows)

    @property
    def is_wide(self) -> bool:
        return len(self.head) > _MOST_BESIDE


PagePart = PageFigure | PageWaiting | PageTable
_Adding = Callable[[HttpRequest, Any], Iterable[PagePart]]
_additions: list[tuple[int, type[Model], _Adding]] = []


def adds_to_page(*models: type[Model], place: int) -> Callable[[_Adding], _Adding]:
    """Have a function add parts to the pages of rows of these models, in the order of places."""

    def decorate(adding: _Adding) -> _Adding:
        _additions.extend((place, model, adding) for model in models)
        return adding

    return decorate


@dataclass(frozen=True)
class ShownPage:
    """The parts of a row's page beside its form."""

    facts: list[tuple[str, object]]
    figures: list[PageFigure] = field(default_factory=list)
    waiting: list[PageWaiting] = field(default_factory=list)
    tables: list[PageTable] = field(default_factory=list)


def page_of(admin: HubAdmin, request: HttpRequest, row: Model) -> ShownPage:
    """Return the page of a row, with the parts that the person may see."""
    shown = ShownPage(list(_facts(admin, row)))
    added = sorted((each for each in _additions if isinstance(row, each[1])), key=lambda each: each[0])
    for _place, _model, adding in added:
        for part in adding(request, row):
            match part:
                case PageFigure():
                    shown.figures.append(part)
                case PageWaiting():
                    shown.waiting.append(part)
                case PageTable():
                    shown.tables.append(part)
    return shown


def _facts(admin: HubAdmin, row: Model) -> Iterator[tuple[str, object]]:
    for name in admin.page_facts:
        label = label_for_field(name, admin.model, model_admin=admin)  # type: ignore[arg-type, unused-ignore]
        known, _attribute, value = lookup_field(name, row, admin)
        if known is not None and known.choices:
            value = getattr(row, f"get_{known.name}_display")()
        if value is not None and strip_tags(str(value)).strip() not in ("", "-", "–"):
            yield capfirst(str(label)), value if isinstance(value, SafeString) else clipped(value, 300)


def values_in(fieldset: Any) -> str:
    """Return the first values of a part of a form, for its heading while it is closed."""
    found = (words for line in fieldset for each in line if (words := _value(each)))
    return " · ".join(words for words, _at in zip(found, range(_MOST_VALUES), strict=False))


def _value(each: Any) -> str:
    if not isinstance(each.field, BoundField):  # a read-only one: the facts have what matters
        return ""
    bound = each.field
    field: Any = bound.field
    if field.disabled or bound.is_hidden or getattr(field.widget, "input_type", "") == "password":
        return ""
    value = bound.value()
    if isinstance(value, bool):
        return str(bound.label) if value else ""
    if isinstance(value, Manager | QuerySet):
        value = list(value.all())
    if isinstance(value, datetime):
        value = f"{timezone.localtime(value):%Y-%m-%d %H:%M}"
    choices = getattr(field, "choices", None)
    if choices is None and isinstance(value, int | float):  # a number without its name means nothing
        return ""
    if value in (None, "", [], {}) or (isinstance(value, str) and (value.lstrip()[:1] in ("{", "[") or "\n" in value)):
        return ""
    if choices is not None and not hasattr(choices, "queryset"):
        labels = {str(key): str(label) for key, label in field.choices}
        chosen = value if isinstance(value, list | tuple) else [value]
        return clipped(", ".join(labels.get(str(key), str(key)) for key in chosen), _MOST_CHARACTERS)
    if hasattr(choices, "queryset"):
        return _related(bound, value)
    return clipped(value, _MOST_CHARACTERS)


def _related(bound: Any, value: Any) -> str:
    keys = value if isinstance(value, list | tuple) else [value]
    rows = bound.field.queryset.filter(pk__in=[getattr(key, "pk", key) for key in keys][:_MOST_VALUES])
    return clipped(", ".join(map(str, rows)), _MOST_CHARACTERS)
