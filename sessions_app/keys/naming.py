"""Names that people use for callers, and the principals by which the audit knows them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db.models import CharField, Q, QuerySet, Value

from sessions_app.kit.lists.filters import TextIs
from sessions_app.kit.people_tables import PEOPLE, person_key
from sessions_app.models import ApiKey

MOST = 10
_MOST_ALIKE = 50
_PRINCIPAL = re.compile(r"anonymous|[a-z]+:.+")


class CallerIs(TextIs):
    """A caller by its principal, or by the name of a key or of a person; several may have one name."""

    def compared(self, value: str) -> Q:
        return self.one_of([value])

    def one_of(self, values: object) -> Q:
        assert isinstance(values, (list, tuple))
        found = [each for value in values for each in principals_of(str(value))]
        return Q(**{self.of: found[0]}) if len(found) == 1 else Q(**{f"{self.of}__in": found})


def principals_of(name: str) -> list[str]:
    """Return the principals that a name means; the name itself where it is a principal, or nobody's."""
    if _PRINCIPAL.fullmatch(name):
        return [name]
    keys = ApiKey.objects.filter(name=name).values_list("pk", "owner_id")[:_MOST_ALIKE]
    found = [f"key:{pk}" if owner is None else f"user:{owner}" for pk, owner in keys]
    person = get_user_model()._default_manager.filter(**{PEOPLE.name: name}).values_list("pk", flat=True).first()
    found += [] if person is None else [f"user:{person}"]
    return list(dict.fromkeys(found)) or [name]


def callers(begun: str) -> list[tuple[str, str]]:
    """Return names of persons and keys that contain the text, each with its principal."""
    users = get_user_model()._default_manager.filter(**{f"{PEOPLE.name}__icontains": begun}).order_by(PEOPLE.name)
    found = [(name, f"user:{pk}") for name, pk in users.values_list(PEOPLE.name, "pk")[:MOST]]
    held = ApiKey.objects.filter(name__icontains=begun).order_by("name")
    found += [
        (name, f"key:{pk}" if owner is None else f"user:{owner}")
        for name, pk, owner in held.values_list("name", "pk", "owner_id")[: MOST - len(found)]
    ]
    return [*found, *([("anonymous", "anonymous")] if begun and "anonymous".startswith(begun) else [])][:MOST]


def names_of(subjects: Iterable[str]) -> Mapping[str, str]:
    """Return the names of people, keys and groups that subjects stand for, in one statement
    unless the keys of people are UUIDs.
    """
    numbers: dict[str, set[Any]] = {"user": set(), "key": set(), "group": set()}
    for subject in subjects:
        kind, _, number = subject.partition(":")
        if kind == "user":
            numbers[kind] |= {person_key(subject)} - {None}
        elif kind in numbers and number.isdecimal() and len(number) < 19:
            numbers[kind].add(int(number))
    named: dict[str, tuple[QuerySet[Any], str]] = {
        "user": (get_user_model()._default_manager.all(), PEOPLE.name),
        "key": (ApiKey.objects.all(), "name"),
        "group": (Group.objects.all(), "name"),
    }
    parts = [
        rows.filter(pk__in=numbers[kind])
        .order_by()
        .annotate(kind=Value(kind, output_field=CharField()))
        .values_list("kind", "pk", column)
        for kind, (rows, column) in named.items()
        if numbers[kind]
    ]
    if not parts:
        return {}
    asked = [parts[0].union(*parts[1:], all=True)] if PEOPLE.is_counted else parts  # a union has columns of one type
    return {f"{kind}:{pk}": name for rows in asked for kind, pk, name in rows}
