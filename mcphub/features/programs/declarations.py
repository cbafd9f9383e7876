"""TypeScript declarations of tools, from their JSON schemas. Pure.

A declaration is for a model to read. Rules without a form in TypeScript are left out; deep parts are `unknown`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sessions_app.protocol import json

_DEEPEST = 6
_MOST_MEMBERS = 60
_MOST_CHOICES = 40
_LONGEST_WORDS = 200
_NAME = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
Schema = Mapping[str, Any]


def of_tool(definition: Schema) -> str:
    """Return the member of `tools` for one tool."""
    root = definition["inputSchema"]
    given = type_of(root, root)
    optional = "" if root.get("required") else "?"
    output = definition.get("outputSchema")
    returned = type_of(output, output) if output else "unknown"
    words = _words(definition.get("description", ""))
    comment = f"  /** {words} */\n" if words else ""
    return f"{comment}  {_member(definition['name'])}(args{optional}: {given}): Promise<{returned}>;\n"


def type_of(schema: Any, root: Schema, depth: int = 0) -> str:
    """Return the type of a schema; `root` has its definitions."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return "unknown"
    if "$ref" in schema:
        return type_of(_referred(schema["$ref"], root), root, depth + 1)
    if "const" in schema:
        return _literal(schema["const"])
    if isinstance(schema.get("enum"), list):
        return _union([_literal(value) for value in schema["enum"][:_MOST_CHOICES]], len(schema["enum"]))
    for name in ("anyOf", "oneOf"):
        if isinstance(schema.get(name), list):
            return _union([type_of(each, root, depth + 1) for each in schema[name][:_MOST_CHOICES]], len(schema[name]))
    if isinstance(schema.get("allOf"), list):
        return " & ".join(type_of(each, root, depth + 1) for each in schema["allOf"][:_MOST_CHOICES]) or "unknown"
    kind = schema.get("type")
    if isinstance(kind, list):
        return _union([type_of({**schema, "type": each}, root, depth + 1) for each in kind], len(kind))
    if kind == "array":
        inner = type_of(schema.get("items"), root, depth + 1)
        return f"({inner})[]" if re.search(r"[|&]", inner) and not inner.startswith("{") else f"{inner}[]"
    if kind == "object" or "properties" in schema:
        return _object(schema, root, depth)
    return _PLAIN.get(kind, "unknown") if isinstance(kind, str) else "unknown"


def _object(schema: Schema, root: Schema, depth: int) -> str:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        more = schema.get("additionalProperties")
        return f"Record<string, {type_of(more, root, depth + 1)}>"
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    members = []
    for name, each in list(properties.items())[:_MOST_MEMBERS]:
        words = _words(each.get("description", "")) if isinstance(each, Mapping) else ""
        comment = f" /* {words} */" if words else ""
        optional = "" if name in required else "?"
        members.append(f"{_member(name)}{optional}: {type_of(each, root, depth + 1)}{comment}")
    if len(properties) > _MOST_MEMBERS:
        members.append("[more: string]: unknown")
    return f"{{ {'; '.join(members)} }}"


def _union(types: list[str], whole: int) -> str:
    found = list(dict.fromkeys(types))
    if whole > len(types) or "unknown" in found:
        return "unknown" if "unknown" in found else " | ".join([*found, "string"])
    return " | ".join(found) or "never"


def _referred(path: Any, root: Schema) -> Any:
    found: Any = root
    if not isinstance(path, str) or not path.startswith("#"):
        return None
    for step in path.removeprefix("#").strip("/").split("/"):
        if step:
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found


def _literal(value: Any) -> str:
    return json.dumps(value).decode() if isinstance(value, str | int | float | bool | None) else "unknown"


def _member(name: str) -> str:
    return name if _NAME.fullmatch(name) else json.dumps(name).decode()


def _words(text: Any) -> str:
    if not isinstance(text, str):
        return ""
    words = " ".join(text.split()).replace("*/", "* /")
    return words if len(words) <= _LONGEST_WORDS else f"{words[:_LONGEST_WORDS]}…"
