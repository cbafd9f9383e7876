"""Replays of recorded calls: their conditions, and the difference of two results. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sessions_app.protocol import json
from sessions_app.protocol.errors import InvalidParams
from sessions_app.protocol.json import Json

if TYPE_CHECKING:
    from invocations.models import McpToolInvocation

MOST_DIFFERENCES = 200
_DEEPEST = 256
_IDS = frozenset({"correlationId", "invocationId"})
"""Of an error's data: they identify the call and are not part of its outcome."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where two results are not the same; `kind` is `added`, `removed` or `changed`."""

    path: str
    kind: str
    original: Any = None
    replay: Any = None


def arguments_of(row: McpToolInvocation) -> dict[str, Json]:
    """Return the arguments of a recorded call; raise InvalidParams where they are not all there."""
    if row.method is not None:
        raise InvalidParams(
            f"Only calls of tools are made again, and this row is of {row.method}. Send the request anew.",
            method=row.method,
        )
    gone = (row.left_out or {}).get("arguments", {})
    if "redacted" in gone:
        raise InvalidParams(
            "The call cannot be made again: its arguments are redacted on record. Make a new call with all of them.",
            redacted=gone["redacted"],
        )
    if "truncated" in gone:
        raise InvalidParams(
            "The call cannot be made again: its arguments are too long to be on record whole. Make a new call.",
            bytes=gone["bytes"],
        )
    if not isinstance(row.arguments, dict):
        raise InvalidParams("The call cannot be made again: retention has erased its arguments.")
    if row.occurrences > 1:
        raise InvalidParams("The row counts refusals of a flood. It holds no arguments to call with.")
    return dict(row.arguments)


def is_comparable(row: McpToolInvocation) -> bool:
    """Return whether the recorded outcome is whole, so that another can be compared with it."""
    gone = row.left_out or {}
    return "result" not in gone and "error" not in gone and not isinstance(row.result or row.error, str)


def outcome(row: McpToolInvocation) -> dict[str, Json]:
    """Return the outcome of a recorded call, without values that differ from call to call."""
    result, error = row.result, row.error
    if isinstance(result, Mapping):
        result = {name: value for name, value in result.items() if name != "_meta"}
    if isinstance(error, Mapping):
        data = error.get("data")
        kept = {key: value for key, value in data.items() if key not in _IDS} if isinstance(data, dict) else data
        error = {**error, "data": kept}
    return {"status": row.status, "result": result, "error": error}


def differences(original: Json, replay: Json) -> list[Difference]:
    """Return where two JSON values differ, in order; of many the first `MOST_DIFFERENCES`."""
    found: list[Difference] = []
    for each in _walk(original, replay, "$", 0):
        found.append(each)
        if len(found) == MOST_DIFFERENCES:
            break
    return found


def _walk(old: Json, new: Json, path: str, depth: int) -> Iterator[Difference]:
    if depth < _DEEPEST and isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            plain = key.isidentifier() and key.isascii()
            below = f"{path}.{key}" if plain else f"{path}[{json.canonical(key)}]"
            if key not in new:
                yield Difference(below, "removed", original=old[key])
            elif key not in old:
                yield Difference(below, "added", replay=new[key])
            else:
                yield from _walk(old[key], new[key], below, depth + 1)
    elif depth < _DEEPEST and isinstance(old, list) and isinstance(new, list):
        for at in range(max(len(old), len(new))):
            if at >= len(new):
                yield Difference(f"{path}[{at}]", "removed", original=old[at])
            elif at >= len(old):
                yield Difference(f"{path}[{at}]", "added", replay=new[at])
            else:
                yield from _walk(old[at], new[at], f"{path}[{at}]", depth + 1)
    elif type(old) is not type(new) or old != new:
        yield Difference(path, "changed", original=old, replay=new)
