"""Common parts of loading all kinds of entries: members and their kinds, comparison, the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError

from sessions_app.protocol import json
from tools_catalog.call.base import Json
from tools_catalog.models import McpAlias, McpPrompt, McpResource, McpToolDefinition, reach

Members = Mapping[str, "type | tuple[type, ...]"]
"""Member of an entry -> the kind of its value."""

LINKS: Mapping[str, tuple[Any, str]] = {
    "groups": (Group, "name"),
    "tools": (McpToolDefinition, "name"),
    "prompts": (McpPrompt, "name"),
    "resources": (McpResource, "uri"),
}
"""Members that name other rows: their table, and the column of the name."""

_JSON_NAMES = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}


@dataclass(slots=True)
class Report:
    """The result of a load: names of tools and prompts, URIs of resources. With anything in `refused`, nothing
    changed.
    """

    created: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """Differ from the bundle and were edited here or come from another source."""
    refused: list[tuple[str, str]] = field(default_factory=list)
    """Entry and why."""
    missing_secrets: list[str] = field(default_factory=list)
    """Secrets that HTTP tools of the bundle name and that do not exist here."""
    differences: dict[str, dict[str, tuple[Json, Json]]] = field(default_factory=dict)
    """For changed or kept entries: member -> its value here, and in the bundle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of entry: tools, resources, prompts."""

    name: str
    model: Any
    key: str
    """The column that identifies its rows."""
    definition: Members
    """The members visible to clients or executed: they follow the source."""
    operation: Members
    """How it is run here: the operator's own, once the row exists."""
    wire: Mapping[str, str]
    """Member that has its MCP name in a bundle -> column; all others are called as their column."""
    came_by: Callable[[Any, str], bool]
    """Whether nobody changed the row since a load of the same reason did."""
    check: Callable[[dict[str, Json], Report], None] | None = None
    """Raises ValueError for problems beyond the columns of an entry, and may add to the report."""
    always: tuple[str, ...] = ()
    """Members that a dump writes even if they are empty."""

    @property
    def members(self) -> Members:
        return {**self.definition, **self.operation}


def load_each(
    kind: Kind,
    entries: list[Json],
    report: Report,
    *,
    complete: Callable[[Json], dict[str, Json]],
    reason: str,
    overwrite: bool,
) -> None:
    """Complete and save the entries one by one; problems are in the report by name."""
    seen: set[str] = set()
    members = {column: name for name, column in kind.wire.items()}
    for index, entry in enumerate(entries):
        label = f"{kind.name}s[{index}]"
        try:
            wanted = complete(entry)
            label = str(wanted[kind.key])
            if label in seen:
                raise ValueError(f"{kind.key}: the bundle has this {kind.name} twice.")
            seen.add(label)
            if kind.check is not None:
                kind.check(wanted, report)
            save(kind, report, wanted, reason=reason, overwrite=overwrite)
        except ValidationError as error:
            report.refused += [
                (label, f"{members.get(column, column)}: {message}")
                for column in error.message_dict
                for message in error.message_dict[column]
            ]
        except (ValueError, LookupError) as error:
            report.refused.append((label, str(error)))


def check_members(entry: Json, kind: Kind) -> None:
    """Raise ValueError for an entry with unknown members or members of the wrong kind."""
    if not isinstance(entry, dict):
        raise ValueError("it must be an object.")
    members = kind.members
    for name, value in entry.items():
        if name not in members:
            raise ValueError(f"{name}: a {kind.name} has no such member. Members: {', '.join(members)}.")
        _check_kind(name, value, members[name])


def _check_kind(name: str, value: Json, kind: type | tuple[type, ...]) -> None:
    is_number = kind in ((int, float), (int, type(None)))
    is_right: bool = isinstance(value, kind) and not (is_number and isinstance(value, bool))
    if not is_right:
        words = "a number" if is_number else _JSON_NAMES[kind]  # type: ignore[index]
        raise ValueError(f"{name}: it must be {words}.")
    if name in LINKS and not all(isinstance(each, str) and 0 < len(each) <= 1000 for each in value):
        raise ValueError(f"{name}: it must be a list of names.")


def save(kind: Kind, report: Report, wanted: dict[str, Json], *, reason: str, overwrite: bool) -> None:
    """Bring one entry into its table: a new one is created, one of the same source is updated, and local edits are
    kept unless `overwrite`.
    """
    label = str(wanted[kind.key])
    found = kind.model.objects.filter(**{kind.key: label}).first()
    is_new = found is None
    row = kind.model(**{kind.key: label}) if is_new else found
    if is_new and kind.model in (McpToolDefinition, McpPrompt):
        if kind.model is McpToolDefinition and (evaded := reach.losses_of_names([label])):
            words = "the former name of a tool, which would leave the reach of"
            raise ValueError(f"{kind.key}: {label} is {words}: {', '.join(evaded)}. Choose another name.")
        McpAlias.objects.give_up(label, row)
    everything = is_new or overwrite
    members = kind.members if everything else kind.definition
    columns = {kind.wire.get(key, key): value for key, value in wanted.items() if key in members and key not in LINKS}
    changes = {column: value for column, value in columns.items() if not _same(getattr(row, column), value)}
    links = {name: _present(name, wanted[name]) for name in LINKS if name in wanted and name in members}
    relinked = {name: names for name, names in links.items() if names != linked(row, name)}
    if not is_new and (changes or relinked):
        was = {column: (_written(getattr(row, column)), _written(value)) for column, value in changes.items()}
        report.differences[label] = {**was, **{name: (linked(row, name), names) for name, names in relinked.items()}}
    for column, value in changes.items():
        setattr(row, column, value)
    if is_new or changes or relinked:
        row.full_clean()
    if not is_new and (changes or relinked) and not overwrite and not kind.came_by(row, reason):
        report.kept.append(label)
    elif not is_new and not changes and not relinked:
        report.unchanged.append(label)
    else:
        row.change_reason = reason
        row.loading = reason
        wanted_rows = {name: _rows(name, names) for name, names in relinked.items()}
        admitted = row.admitted_links(wanted_rows) if wanted_rows else {}
        row.save()
        for name, rows in admitted.items():
            getattr(row, name).set(rows)
        (report.created if is_new else report.changed).append(label)


def _present(name: str, given: list[str]) -> list[str]:
    """Return names in their order, a former name as the present one."""
    former: dict[str, str] = {}
    if name in ("tools", "prompts"):
        field = name.removesuffix("s")
        aliases = McpAlias.objects.live().filter(name__in=given, **{f"{field}__isnull": False})
        former = dict(aliases.values_list("name", f"{field}__name"))
    return sorted({former.get(each, each) for each in given})


def _rows(name: str, names: list[str]) -> list[Any]:
    """Return the rows of these names; groups that are missing are made, tools must be there."""
    model, key = LINKS[name]
    if model is Group:
        return [Group.objects.get_or_create(name=each)[0] for each in names]
    found = list(model.objects.filter(**{f"{key}__in": names}))
    if missing := sorted(set(names) - {getattr(row, key) for row in found}):
        raise ValueError(f"{name}: there is no {missing[0]!r} in the catalogue or in the bundle.")
    return found


def _same(one: Json, other: Json) -> bool:
    """Return whether two JSON values are equal, ignoring a number's kind but not the order of names."""
    if isinstance(one, datetime) or isinstance(other, datetime):
        return bool(one == other)
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return one == other
    return (one is not None and other is not None and json.dumps(one) == json.dumps(other)) or one is other


def _written(value: Any) -> Json:
    return value.isoformat() if isinstance(value, datetime) else value


def linked(row: Any, name: str) -> list[str]:
    """Return the names of the row's linked rows."""
    key = LINKS[name][1]
    return sorted(getattr(each, key) for each in getattr(row, name).all()) if row.pk else []


def dump(kind: Kind) -> list[dict[str, Json]]:
    """Return every row as an entry; empty members are omitted, except required ones."""
    return dump_rows(kind, kind.model.objects.all())


def dump_rows(kind: Kind, rows: Any) -> list[dict[str, Json]]:
    """Return the rows of a queryset as entries."""
    links = [name for name in LINKS if name in kind.members]
    return [_entry(kind, row) for row in rows.prefetch_related(*links).order_by(kind.key)]


def _entry(kind: Kind, row: Any) -> dict[str, Json]:
    entry: dict[str, Json] = {}
    for name in kind.members:
        value = linked(row, name) if name in LINKS else getattr(row, kind.wire.get(name, name))
        if value not in ({}, [], "", None) or name in kind.always:
            entry[name] = value
    return entry
