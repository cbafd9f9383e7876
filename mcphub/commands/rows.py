"""Shared parts of commands about rows: `list`, `show`, `enable` and `disable` by name, also as JSON.

They act as REST and the console do; the history names the machine's user. Exit statuses: 0 it is done, 1 there is no
such row or it was refused, 2 the command was written wrongly.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcphub.commands.stop import Stop, migrated_database
from mcphub.shell_completion import names_of

if TYPE_CHECKING:
    from django.db.models import QuerySet

NOT_FOUND = 1
VERBS = ("list", "show", "enable", "disable")
"""The verbs of `do`."""
_MOST_COMPARED = 5000
"""Names that a wrong one is compared with: it takes some 10 ms."""
_MOST_NEAREST = 3
_LONGEST_REASON = 300
_LONGEST_SECRET = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKind:
    """Rows of one kind, as a command lists and shows them."""

    command: str
    noun: str
    nouns: str
    key: str
    """The column that names a row; `USERNAME_FIELD`: the one that a person logs in by."""
    rows: Callable[[], QuerySet[Any]]
    """Gives the rows in the order of the list."""
    told: Callable[[Any], Mapping[str, Any]]
    """Gives a row as JSON has it: as REST answers, where REST has such rows."""
    line: Callable[[Mapping[str, Any]], Sequence[object]]
    """Returns the columns of a row's line, from the result of `told`."""
    none: str
    """The message for an empty list."""
    metavar: str = "NAME"
    listing: str = ""
    """The command that names the rows; `list` of the kind's command if empty."""

    @property
    def column(self) -> str:
        """Return the column that names a row."""
        return str(getattr(self.rows().model, self.key)) if self.key == "USERNAME_FIELD" else self.key


def declare_list(verbs: Any, kind: RowKind) -> argparse.ArgumentParser:
    listed: argparse.ArgumentParser = verbs.add_parser("list", help=f"name the {kind.nouns}, with how each stands")
    listed.add_argument("--json", action="store_true", help="as JSON")
    return listed


def declare_show(verbs: Any, kind: RowKind) -> argparse.ArgumentParser:
    show: argparse.ArgumentParser = verbs.add_parser("show", help=f"print all of one {kind.noun}")
    completes(show.add_argument("name", metavar=kind.metavar, help=f"which {kind.noun}"), kind)
    show.add_argument("--json", action="store_true", help="as JSON")
    return show


def declare_deed(verbs: Any, kind: RowKind, verb: str, words: str) -> argparse.ArgumentParser:
    """Declare a verb that is done to rows by name, with a reason."""
    deed: argparse.ArgumentParser = verbs.add_parser(verb, help=words)
    which = f"which {kind.noun}; several may be named"
    completes(deed.add_argument("name", metavar=kind.metavar, nargs="+", help=which), kind)
    deed.add_argument("--reason", default="", metavar="WORDS", help="kept in the history")
    deed.add_argument("--json", action="store_true", help="as JSON")
    return deed


def completes(argument: argparse.Action, kind: RowKind) -> None:
    """Let shells complete the argument by the names of rows."""
    argument.completer = names_of(kind)  # type: ignore[attr-defined]  # as argcomplete wants it


def do(kind: RowKind, options: argparse.Namespace) -> int:
    """Carry out one of `VERBS`."""
    with migrated_database():
        if options.verb == "list":
            return list_rows(kind, options)
        return show_row(kind, options) if options.verb == "show" else switch(kind, options)


def list_rows(kind: RowKind, options: argparse.Namespace, rows: Iterable[Any] | None = None) -> int:
    """Print the rows, all of the kind or those given."""
    found = [kind.told(row) for row in (kind.rows() if rows is None else rows)]
    if options.json:
        return print_json(found)
    for each in found:
        print_line(kind.line(each))
    if not found:
        print(kind.none, file=sys.stderr)
    return 0


def show_row(kind: RowKind, options: argparse.Namespace) -> int:
    told = kind.told(named(kind, [options.name])[0])
    if options.json:
        return print_json(told)
    for name, value in told.items():
        print_line([f"{name}:", _words(value)])
    return 0


def switch(kind: RowKind, options: argparse.Namespace) -> int:
    """Perform `enable` or `disable`, through the console's action."""
    rows = named(kind, options.name)
    changed = []
    for row in rows:
        own: Any = type(row)._default_manager.filter(pk=row.pk)
        is_on, reason = options.verb == "enable", options.reason[:_LONGEST_REASON]
        changed.append(
            bool(own.set_enabled(is_on, reason) if hasattr(own, "set_enabled") else _set(row, is_on, reason))
        )
    return tell(kind, rows, changed, options, done=f"is {options.verb}d", before=f"was {options.verb}d before")


def _set(row: Any, is_on: bool, reason: str) -> bool:
    """Switch a row of a table that the console switches on each row's page."""
    is_change = bool(row.enabled) != is_on
    if is_change:
        row.enabled, row.change_reason = is_on, reason
        row.save(update_fields=["enabled", *(field.name for field in row._meta.fields if field.name == "updated_at")])
    return is_change


def remove(kind: RowKind, options: argparse.Namespace, delete: Callable[[Any], object] | None = None) -> int:
    """Delete rows by name, each as its page does, or by `delete`, all of them or none."""
    from django.db import transaction

    found = named(kind, options.name)
    told = [kind.told(row) for row in found]
    with transaction.atomic():
        for row in found:
            keep_used(f"{kind.command} remove: {plain(getattr(row, kind.column))}", row)
            row.change_reason = options.reason[:_LONGEST_REASON]
            (type(row).delete if delete is None else delete)(row)
    if options.json:
        return print_json(told)
    for row in found:
        print(f"{plain(getattr(row, kind.column))} is removed.")
    return 0


def keep_used(words: str, row: Any) -> None:
    """Stop where rows of a feature that is switched off name this one."""
    from sessions_app.kit.left_out import refusal

    if kept := refusal([row]):
        raise Stop(f"mcphub {words} stays. {kept}")


def read_secret(command: str, file: str | None) -> str:
    """Return a secret from a file, without one from standard input."""
    try:
        if file is None:
            return sys.stdin.read(_LONGEST_SECRET).strip()
        with Path(file).open(encoding="utf-8") as source:
            return source.read(_LONGEST_SECRET).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Stop(f"mcphub {command}: the secret cannot be read: {error}.", status=2) from error


def tell(
    kind: RowKind, rows: Sequence[Any], changed: Sequence[bool], options: argparse.Namespace, *, done: str, before: str
) -> int:
    """Print the outcome for rows, each in its current state."""
    if options.json:
        now = {row.pk: row for row in kind.rows().filter(pk__in=[row.pk for row in rows])}
        return print_json([kind.told(now[row.pk]) for row in rows])
    for row, is_changed in zip(rows, changed, strict=True):
        print(f"{plain(getattr(row, kind.column))} {done if is_changed else before}.")
    return 0


def named(kind: RowKind, names: Sequence[str], *, status: int = NOT_FOUND, by: str = "") -> list[Any]:
    """Return the rows with these names, each once; stop at an unknown name, as `missing` does."""
    wanted = list(dict.fromkeys(name.replace("\0", "") for name in names))
    found = {str(getattr(row, kind.column)): row for row in kind.rows().filter(**{f"{kind.column}__in": wanted})}
    for name in wanted:
        if name not in found:
            raise missing(kind, name, status=status, by=by)
    return [found[name] for name in wanted]


def missing(kind: RowKind, name: str, *, status: int = NOT_FOUND, by: str = "") -> Stop:
    """Return the end of a command, of the kind's own or of the one named, that names no row. Suggest similar names."""
    known = kind.rows().order_by().values_list(kind.column, flat=True)[:_MOST_COMPARED]
    near = nearest(name, map(str, known))
    hint = f"The nearest: {', '.join(map(plain, near))}. " if near else ""
    return Stop(
        f"mcphub {by or kind.command}: there is no {kind.noun} {plain(name)!r}. {hint}"
        f"`mcphub {kind.listing or f'{kind.command} list'}` names them.",
        status=status,
    )


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that were probably meant: those that hold it, then those that differ by a few letters."""
    names, sought = list(known), name.casefold()
    holding = sorted(each for each in names if sought and sought in each.casefold())
    alike = difflib.get_close_matches(name, names, n=_MOST_NEAREST, cutoff=0.6)
    return list(dict.fromkeys([*holding[:_MOST_NEAREST], *alike]))[:_MOST_NEAREST]


def print_json(value: object) -> int:
    """Print JSON in UTF-8; characters that UTF-8 cannot hold, as clients may send them, as JSON escapes."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    print(text.encode(errors="backslashreplace").decode())
    return 0


def print_line(words: Iterable[object]) -> None:
    """Print one line separated by tabs: foreign text neither ends it nor controls the terminal."""
    print("\t".join(plain(each) for each in words).rstrip())


def plain(value: object) -> str:
    from sessions_app.kit.shown import visible

    return visible(value, one_line=True)


def _words(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "-"
    return json.dumps(value, ensure_ascii=False, default=str)
