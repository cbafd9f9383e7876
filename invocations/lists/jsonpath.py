"""`$.city="Berlin"`: one place in a stored body and the value that stands there, asked of the database.

Path: `$`, then one to eight steps, each `.name` (a letter or `_`, then letters, digits, `_` and `-`, at most 64) or
`[index]`. Value: a JSON text, number, `true`, `false` or `null`. Numbers compare by value, texts by each character.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import connection
from django.db.models import BooleanField
from django.db.models.expressions import RawSQL

from invocations.redaction import hiding
from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError

LONGEST = 1000
_STEP = r"\.[A-Za-z_][A-Za-z0-9_-]{0,63}|\[[0-9]{1,4}\]"
_TEXT = (
    r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|'
    r"\\u(?:[1-9a-cA-CeEfF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|0[1-9a-fA-F][0-9a-fA-F]{2}|"
    r"00[1-9a-fA-F][0-9a-fA-F]|000[1-9a-fA-F]|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))*\""
)
_NUMBER = r"-?(?:0|[1-9][0-9]{0,17}|[1-8][0-9]{18})(?:\.[0-9]{1,17})?(?:[eE][+-]?[0-9]{1,2})?"
PATTERN = rf"\$((?:{_STEP}){{1,8}})=({_TEXT}|{_NUMBER}|true|false|null)"
_CONDITION = re.compile(PATTERN)
_HOW = (
    'Write a path and a JSON value, such as $.city="Berlin", $.items[0].count=3 or $.force=true: one to eight steps, '
    "each .name (a letter or _, then letters, digits, _ and -) or [index]; then a text in double quotes, a number, "
    "true, false or null. A whole number has 18 digits, or 19 below 9000000000000000000; a text no NUL."
)
_SANE = (
    r"CASE WHEN position('\u' in {0}) > 0 "
    r"THEN regexp_replace({0}, '\\u(0000|d[89a-f][0-9a-f]{{2}})', '\\ufffd', 'gi') ELSE {0} END"
)
"""PostgreSQL refuses to look into JSON that holds an escaped NUL or a lone surrogate; the audit holds both."""


class BodySearch(RawSQL):
    """A condition for which each body is read."""

    looks_into_bodies = True


@dataclass(frozen=True, slots=True)
class Condition:
    """`steps`: names and indexes, outermost first; `value`: a JSON scalar."""

    steps: tuple[str | int, ...]
    value: str | int | float | bool | None
    tags: tuple[str, ...] = ()
    """Possible redaction tags of the value."""

    def on(self, table: str, column: str) -> BodySearch:
        """Return the condition on a JSONText column, for `QuerySet.filter`; false where nothing stands at the path."""
        stored = f'"{table}"."{column}"'
        dialect = self._postgresql if connection.vendor == "postgresql" else self._sqlite
        sql, parameters = dialect(stored, self.value)
        for tag in self.tags:
            other, more = dialect(stored, tag)
            sql, parameters = f"({sql} OR {other})", [*parameters, *more]
        return BodySearch(sql, parameters, output_field=BooleanField())

    def recorded(self) -> str:
        """Return the condition as the audit may keep it: the searched value may itself be sensitive."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.steps)
        return f"${''.join(steps)}={self.tags[0] if self.tags else '…'}"

    def _sqlite(self, stored: str, value: str | int | float | None) -> tuple[str, list[str | int | float]]:
        path = "$" + "".join(f"[{step}]" if isinstance(step, int) else f'."{step}"' for step in self.steps)
        kind = f"coalesce(json_type({stored}, %s), '')"
        if value is None or isinstance(value, bool):
            return f"{kind} = %s", [path, json.canonical(value)]
        kinds = "('text')" if isinstance(value, str) else "('integer', 'real')"
        return f"({kind} IN {kinds} AND json_extract({stored}, %s) = %s)", [path, path, value]

    def _postgresql(self, stored: str, value: str | int | float | None) -> tuple[str, list[str | int]]:
        steps = "".join(" -> %s::int" if isinstance(step, int) else " -> %s::text" for step in self.steps)
        found = f"(({_SANE.format(stored)})::json{steps})"
        path = list(self.steps)
        if value is None:
            return f"coalesce(json_typeof({found}) = 'null', false)", path
        kind, cast = "string", "text"
        if isinstance(value, bool):
            kind = "boolean"
        elif not isinstance(value, str):
            kind, cast = "number", "numeric"
        text = value if isinstance(value, str) else json.canonical(value)
        return (
            f"CASE json_typeof({found}) WHEN '{kind}' THEN ({found} #>> '{{}}')::{cast} = %s::{cast} ELSE false END",
            [*path, *path, text],
        )


def parse(text: str) -> Condition:
    """Read a condition; raise ValidationError with the syntax."""
    match = _CONDITION.fullmatch(text)
    if match is None or len(text) > LONGEST:
        raise ValidationError(_HOW)
    steps = tuple(int(step[1:-1]) if step.startswith("[") else step[1:] for step in re.findall(_STEP, match[1]))
    try:
        value = json.loads(match[2].encode())
    except (ParseError, UnicodeEncodeError) as error:
        raise ValidationError(_HOW) from error
    return Condition(steps, value, tuple(hiding.tags(value, settings.MCPHUB_ENCRYPTION_KEYS)))
