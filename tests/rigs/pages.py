"""Every page of the console as a superuser may ask for it: each address, each list by each filter, order and search."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import admin
from django.contrib.admin import filters
from django.db.models import Model
from django.test import RequestFactory
from django.urls import reverse

import mcphub.urls  # noqa: F401 - registers the pages of the admin
from sessions_app.kit.admin.changelist import AFTER, BEFORE
from sessions_app.kit.admin.filters import MomentsControl, NumbersControl
from sessions_app.kit.admin.keyset import KeysetPaginator, order_of, place_of
from sessions_app.kit.lists import searching
from sessions_app.kit.lists.filters import Between, During, OneOf, WholeNumber, YesOrNo
from tests.rigs.addresses import address, one_of_each, patterns

ABSENT = "0" * 32
_LEFT_OUT = {
    "admin/logout/": "ends the login",
    "admin/invocations/mcptoolinvocation/live/<int:after>/": "never ends",
    "admin/connect/live/<int:after>/": "never ends",
    "admin/notices/stream/": "never ends",
    "admin/autocomplete/": "no page asks for it",
}


def places(user: Any) -> Iterator[tuple[str, str]]:
    """Return (group, address). A group is a pattern of the URL configuration; a list's variants are one group."""
    newest = one_of_each()
    oldest = {name: type(row)._default_manager.order_by("pk").first() for name, row in newest.items()}
    for pattern in dict.fromkeys(patterns()):
        if not pattern.startswith("admin/") or pattern in _LEFT_OUT:
            continue
        group = re.sub(r"\^\(\?P(<app_label>)[^)]*\)", r"\1", pattern.replace(" ", ""))  # its order is that of the apps
        yield from ((group, where) for where in dict.fromkeys((address(pattern, newest), address(pattern, oldest))))
    yield from (("admin/", f"/admin/?{query}") for query in ranges())
    for model, page in admin.site._registry.items():
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        where = reverse(f"admin:{name}_changelist")
        rows = [row for row in (newest.get(name), oldest.get(name)) if row is not None]
        yield from ((where[1:], f"{where}?{urlencode(query)}") for query in variants(page, user, rows))


def ranges() -> Iterator[str]:
    now = datetime.now(UTC)
    yield from (f"range={name}" for name in ("15m", "1h", "24h", "7d"))
    for days in (30, 300):
        words = {"from": now - timedelta(days=days), "to": now}
        yield "range=custom&" + urlencode({name: f"{at:%Y-%m-%dT%H:%M}" for name, at in words.items()})


def variants(page: Any, user: Any, rows: list[Model]) -> Iterator[dict[str, str]]:
    """Return the queries of one list: pages, orders, searches, and each choice of each filter."""
    request = RequestFactory().get("/")
    request.user = user
    shown = page.get_changelist_instance(request)
    if isinstance(shown.paginator, KeysetPaginator):
        order = order_of(page)
        yield from ({side: place_of(order.key_of(row))} for side in (BEFORE, AFTER) for row in rows)
    else:
        yield from (
            {"p": str(number)} for number in {2, shown.paginator.num_pages} if number <= shown.paginator.num_pages
        )
    for at, column in enumerate(shown.list_display):
        if shown.get_ordering_field(column) and (page.sortable_by is None or column in page.sortable_by):
            yield from ({"o": f"{sign}{at}"} for sign in ("", "-"))
    if page.get_search_fields(request):
        yield from ({"q": word} for word in ("absent-word", str(UUID(int=7)), "12", *(str(row.pk) for row in rows)))
    if getattr(page, "finds_by_keys", False):
        yield from ({"q": text} for text in _searches(page))
    for spec in shown.filter_specs:
        yield from _filtered(spec, rows)


def _searches(page: Any) -> Iterator[str]:
    """Return for each key of a list's search one value, two of them, and their exclusion."""
    for key, of in searching.keys(page.filters).items():
        if isinstance(of, OneOf):
            values = [value for value, _label in of.offered][:2] or ["some"]
        elif isinstance(of, (During, Between, YesOrNo, WholeNumber)):
            values = ["24h" if isinstance(of, During) else "yes" if isinstance(of, YesOrNo) else "7"]
        elif key in ("arguments", "result"):
            values = ['$.city="Berlin"']
        else:
            values = [ABSENT, "key:1"]
        yield searching.written(key, values[0]) if key not in ("arguments", "result") else f"{key}:{values[0]}"
        if of.takes_several:
            yield searching.written(key, *values)
            yield searching.written(key, *values, is_excluded=True)
    yield "no-such-key:1"


def _filtered(spec: Any, rows: list[Model]) -> Iterator[dict[str, str]]:
    if isinstance(spec, MomentsControl):
        yield from _times(spec.field_path)
    elif isinstance(spec, filters.SimpleListFilter):
        name = str(spec.parameter_name)
        choices = [value for value, *_ in getattr(spec, "lookup_choices", None) or ()]
        yield from ({name: str(value)} for value in choices or _written(name, rows))
    elif isinstance(spec, filters.DateFieldListFilter):
        yield from ({name: str(value) for name, value in query.items()} for _, query in spec.links if query)
    elif isinstance(spec, NumbersControl):
        yield from ({f"{spec.field_path}_{side}": value} for side in ("from", "to") for value in ("0", "100", "999999"))
    elif isinstance(spec, filters.BooleanFieldListFilter):
        yield from ({spec.lookup_kwarg: value} for value in "10")
    elif isinstance(spec, filters.ChoicesFieldListFilter):
        yield from ({spec.lookup_kwarg: str(value)} for value, _ in spec.field.flatchoices)
    elif isinstance(spec, (filters.RelatedFieldListFilter, filters.AllValuesFieldListFilter)):
        choices = [choice[0] if isinstance(choice, tuple) else choice for choice in spec.lookup_choices]
        yield from ({spec.lookup_kwarg: str(value)} for value in choices[:2])
    else:
        raise TypeError(f"tests/rigs/pages.py does not know what {type(spec).__name__} takes. Teach it.")


def _written(name: str, rows: list[Model]) -> Iterator[str]:
    """What somebody writes into the box of a filter: what is there, and what is not."""
    yield ABSENT
    if name == "arguments":
        yield '$.city="Berlin"'
    for row in rows:
        value = next(
            (getattr(row, each, "") for each in (name, f"{name}_id", f"{name}_name") if hasattr(row, each)), ""
        )
        if isinstance(value, str) and value:
            yield value


def _times(field: str) -> Iterator[dict[str, str]]:
    now = datetime.now(UTC)
    for begin, end in ((1, None), (400, None), (None, 20), (15, 14.9), (None, 400), (-2, None)):
        query = {}
        for side, days in (("from", begin), ("to", end)):
            if days is not None:
                at = now - timedelta(days=days)
                query |= {f"{field}_{side}_0": f"{at:%Y-%m-%d}", f"{field}_{side}_1": f"{at:%H:%M:%S}"}
        yield query


def plain(where: str) -> str:
    """Return an address without what differs from run to run."""
    return re.sub(r"\d{4}-\d{2}-\d{2}", "DAY", where)
