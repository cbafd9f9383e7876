"""Rules that make a function's schema one that a family of providers takes. Pure.

Each rule rewrites one node, children first, and only ever widens it: the hub checks the arguments against the tool's
own schema. `dialects` has the table of the rules that each family needs, with the reports.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import re2

from sessions_app.protocol.json import Json

Node = dict[str, Json]
Rule = Callable[[Node, bool], Node]
"""Takes a node and whether it is the root; returns it, or another in its place."""

DEEPEST = 16
"""Levels of schemas in schemas; below it only the type stays."""
SCHEMA = frozenset(
    {
        "items",
        "additionalProperties",
        "additionalItems",
        "not",
        "if",
        "then",
        "else",
        "contains",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
        "contentSchema",
    }
)
"""Keywords with a schema as their value."""
SCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_SHAPES: Mapping[str, type | tuple[type, ...]] = {
    "type": (str, list),
    "items": (dict, list, bool),
    "properties": dict,
    "patternProperties": dict,
    "dependentSchemas": dict,
    "allOf": list,
    "anyOf": list,
    "oneOf": list,
    "prefixItems": list,
    "enum": list,
    "required": list,
    "pattern": str,
    "format": str,
    "description": str,
    "title": str,
}
"""Types of keywords that rules read."""
_COMBINATORS = ("allOf", "anyOf", "oneOf")
_CONDITIONS = ("if", "then", "else", "not", "dependentSchemas", "dependentRequired", "dependencies")
_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_LOOKAROUND = re.compile(r"\(\?<?[=!]")
_GOOGLE_WORDS = frozenset(
    {
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "maxItems",
        "minItems",
        "properties",
        "required",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "anyOf",
        "items",
    }
)
_GOOGLE_FORMATS = {
    "string": frozenset({"date-time", "enum"}),
    "integer": frozenset({"int32", "int64"}),
    "number": frozenset({"float", "double"}),
}


def rewrite(schema: Node, rules: Iterable[Rule], *, deepest: int = DEEPEST) -> Node:
    """Return the schema as the rules leave it."""
    return _rewrite(schema, tuple(rules), deepest, is_root=True)


def _rewrite(node: Node, rules: tuple[Rule, ...], left: int, *, is_root: bool = False) -> Node:
    if left <= 0:
        return {name: node[name] for name in ("type", "description") if isinstance(node.get(name), str)}

    def inner(value: Json) -> Json:
        if value is True:
            return {}
        if value is False:
            return {"not": {}}
        return _rewrite(value, rules, left - 1) if isinstance(value, dict) else value

    fresh: Node = {}
    for name, value in node.items():
        if not isinstance(value, _SHAPES.get(name, object)):
            continue  # it says nothing that a schema may
        if name in SCHEMAS and isinstance(value, list):
            value = [inner(each) for each in value]
        elif name in NAMED_SCHEMAS and isinstance(value, dict):
            value = {key: inner(each) for key, each in value.items()}
        elif name in SCHEMA and isinstance(value, dict):
            value = inner(value)
        fresh[name] = value
    for rule in rules:
        fresh = rule(fresh, is_root)
    return fresh


def bare(schema: Node) -> Node:
    """Return the least of a schema that still names the arguments: the last resort before a tool is left out."""
    properties = schema.get("properties")
    found: Node = {}
    for name, each in (properties if isinstance(properties, dict) else {}).items():
        argument = each if isinstance(each, dict) else {}
        kind = argument.get("type") or _guess(argument)
        kind = next((one for one in kind if one != "null"), "string") if isinstance(kind, list) else kind
        found[name] = {"type": kind, "items": {"type": "string"}} if kind == "array" else {"type": kind}
        if isinstance(argument.get("description"), str):
            found[name]["description"] = argument["description"]
    required = [name for name in _names(schema.get("required")) if name in found]
    made: Node = {"type": "object", "properties": found}
    return {**made, "required": required} if required else made


def odd_property(schema: Node, names: re.Pattern[str] | None) -> str | None:
    """Return the first property whose name is not one of `names`; None if there is none, or any name is allowed."""
    waiting: list[Json] = [schema] if names is not None else []
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        if not isinstance(node, dict):
            continue
        properties = node.get("properties")
        for name, each in (properties if isinstance(properties, dict) else {}).items():
            if names is not None and not names.fullmatch(name):
                return str(name)
            waiting.append(each)
        waiting += [node[name] for name in (*SCHEMA, *SCHEMAS) if name in node]
    return None


# For every family ---------------------------------------------------------------------------------


def older_drafts(node: Node, is_root: bool) -> Node:
    """Write drafts 3 to 7 as 2020-12: tuples, boolean exclusive bounds, `nullable`, `type: any`."""
    if isinstance(node.get("items"), list):
        node = {**node, "prefixItems": node["items"], "items": {}}
    for bound, strict in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(node.get(strict), bool):
            is_strict, node = node[strict], _without(node, strict)
            if is_strict and bound in node:
                node = {**_without(node, bound), strict: node[bound]}
    kind = node.get("type")
    kinds = [each for each in (kind if isinstance(kind, list) else [kind]) if isinstance(each, str) and each in _TYPES]
    if kind is not None and (not kinds or (isinstance(kind, list) and len(kinds) != len(kind))):
        node = {**node, "type": kinds} if kinds else _without(node, "type")
    if node.pop("nullable", False) is True and isinstance(node.get("type"), str):
        node = {**node, "type": [node["type"], "null"]}
    return node


def merged_root(node: Node, is_root: bool) -> Node:
    """Take the combinators from the root: its branches' properties are the root's, and the description has the rest."""
    if not is_root:
        return node
    branches = [each for name in _COMBINATORS for each in _schemas(node.get(name))]
    choices = [each for name in ("anyOf", "oneOf") for each in _schemas(node.get(name))]
    gone = (*_COMBINATORS, "enum", "const", *_CONDITIONS)
    if not any(name in node for name in gone):
        return node
    properties: Node = dict(node["properties"]) if isinstance(node.get("properties"), dict) else {}
    required = dict.fromkeys(_names(node.get("required")))
    for branch in branches:
        for name, each in (branch["properties"] if isinstance(branch.get("properties"), dict) else {}).items():
            held = properties.get(name)
            if held is None or held == {} or held == each:
                properties[name] = each
            elif each != {}:
                properties[name] = {"anyOf": [*(held["anyOf"] if held.keys() == {"anyOf"} else [held]), each]}
    for each in _schemas(node.get("allOf")):
        required |= dict.fromkeys(_names(each.get("required")))
    for name in ("anyOf", "oneOf"):
        sets = [frozenset(_names(each.get("required"))) for each in _schemas(node.get(name))]
        if sets:
            required |= dict.fromkeys(sorted(frozenset.intersection(*sets)))
    fresh = {**_without(node, *gone), "type": "object", "properties": properties}
    if any(each.get("additionalProperties") is not False for each in branches):
        fresh.pop("additionalProperties", None)
    fresh = {**fresh, "required": list(required)} if required else _without(fresh, "required")
    groups = [", ".join(_names(each.get("required"))) for each in choices]
    return _described(fresh, f"Needs one of: {'; or '.join(groups)}.") if all(groups) and groups else fresh


def array_items(node: Node, is_root: bool) -> Node:
    """Name the items of each array: OpenAI, Azure and Google refuse one without."""
    is_array = node.get("type") == "array" or (isinstance(node.get("type"), list) and "array" in node["type"])
    return {**node, "items": {}} if is_array and not isinstance(node.get("items"), dict) else node


def plain_patterns(node: Node, is_root: bool) -> Node:
    """Move a pattern that not every engine reads (look-around, back-references, `\\p`) into the description."""
    pattern = node.get("pattern")
    if pattern is not None and not (isinstance(pattern, str) and _is_plain(pattern)):
        node = _without(node, "pattern")
        node = _described(node, f"Pattern: {pattern}") if isinstance(pattern, str) and len(pattern) <= 200 else node
    patterns = node.get("patternProperties")
    if isinstance(patterns, dict) and not all(map(_is_plain, patterns)):
        kept = {name: each for name, each in patterns.items() if _is_plain(name)}
        node = _without(node, "additionalProperties", "patternProperties")
        node = {**node, "patternProperties": kept} if kept else node
    return node


def sound_lists(node: Node, is_root: bool) -> Node:
    """Drop empty and repeated entries of `enum` and `required`, and names that no property has."""
    if "enum" in node:
        values = node["enum"] if isinstance(node["enum"], list) else []
        kept = [each for at, each in enumerate(values) if not any(_same(each, other) for other in values[:at])]
        node = {**node, "enum": kept} if kept else _without(node, "enum")
    for name in _COMBINATORS:
        if isinstance(node.get(name), list) and not node[name]:
            node = _without(node, name)
    if "required" in node:
        properties: Node = node["properties"] if isinstance(node.get("properties"), dict) else {}
        names = list(dict.fromkeys(_names(node["required"])))
        if is_root or node.get("type") == "object":
            names = [name for name in names if name in properties]
        node = {**node, "required": names} if names else _without(node, "required")
    return node


# For some -----------------------------------------------------------------------------------------


def no_conditions(node: Node, is_root: bool) -> Node:
    """Drop `if`, `then`, `else`, `not` and dependencies."""
    return _without(node, *_CONDITIONS)


def no_tuples(node: Node, is_root: bool) -> Node:
    """Write a tuple as an array of any of its items."""
    if "prefixItems" not in node:
        return node
    items = [*_schemas(node["prefixItems"])]
    if isinstance(node.get("items"), dict) and node["items"] not in ({}, {"not": {}}):
        items.append(node["items"])
    unique = [each for at, each in enumerate(items) if each not in items[:at]]
    one: Node = {} if not unique or {} in unique else unique[0] if len(unique) == 1 else {"anyOf": unique}
    return {**_without(node, "prefixItems", "additionalItems"), "items": one}


def any_of_only(node: Node, is_root: bool) -> Node:
    """Convert `oneOf` to `anyOf`, and merge the demands of `allOf`."""
    if isinstance(node.get("oneOf"), list):
        node = {**_without(node, "oneOf"), "anyOf": [*_schemas(node.get("anyOf")), *_schemas(node["oneOf"])]}
    if isinstance(node.get("allOf"), list):
        parts, node = _schemas(node["allOf"]), _without(node, "allOf")
        for part in parts:
            node = _both(node, part)
    return node


def one_type(node: Node, is_root: bool) -> Node:
    """Write several types as `anyOf`; of one beside null the one."""
    kinds = node.get("type")
    if not isinstance(kinds, list):
        return node
    named = [each for each in kinds if each != "null"]
    if len(named) <= 1:
        return {**node, "type": named[0] if named else "string"}
    if "anyOf" in node:
        return _without(node, "type")
    shared: Node = {name: node[name] for name in ("title", "description", "default") if name in node}
    rest = _without(node, "type", *shared)
    return {**shared, "anyOf": [_for_type(rest, each) for each in named]}


def typed_nodes(node: Node, is_root: bool) -> Node:
    """Name a type in each node, and beside `anyOf` in its branches: Kimi and Google refuse one without."""
    if isinstance(node.get("anyOf"), list) and node["anyOf"]:
        kind = node.get("type")
        branches = [
            each if "type" in each or "anyOf" in each else {"type": kind or _guess(each), **each}
            for each in node["anyOf"]
        ]
        return {**_without(node, "type", "properties", "required", "items", "enum"), "anyOf": branches}
    if node.get("items") == {}:  # as `array_items` makes them, after the items were rewritten
        node = {**node, "items": {"type": "string"}}
    return node if "type" in node else {"type": _guess(node), **node}


def const_as_enum(node: Node, is_root: bool) -> Node:
    """Write `const` as an `enum` of one."""
    return {**_without(node, "const"), "enum": [node["const"]]} if "const" in node else node


def google_words(node: Node, is_root: bool) -> Node:
    """Keep the words of Google's Schema alone: others are unknown names, and formats and enums have their types."""
    if isinstance(node.get("exclusiveMinimum"), int | float):
        node = {"minimum": node["exclusiveMinimum"], **node}
    if isinstance(node.get("exclusiveMaximum"), int | float):
        node = {"maximum": node["exclusiveMaximum"], **node}
    node = {name: each for name, each in node.items() if name in _GOOGLE_WORDS}
    kind = node.get("type")
    if "format" in node and node["format"] not in _GOOGLE_FORMATS.get(str(kind), ()):
        node = _described(_without(node, "format"), f"Format: {node['format']}")
    if "enum" in node and (kind != "string" or not all(isinstance(each, str) and each for each in node["enum"])):
        shown = ", ".join(str(each) for each in node["enum"][:20])
        node = _described(_without(node, "enum"), f"One of: {shown}")
    return node


def grammar_words(node: Node, is_root: bool) -> Node:
    """Drop keywords that a grammar lacks, or expresses only at great length: patterns, formats and bounds
    (llama.cpp).
    """
    words = ("format", "minLength", "maxLength", "minItems", "maxItems", "propertyNames", "contains", "uniqueItems")
    if isinstance(node.get("pattern"), str):
        node = _described(_without(node, "pattern"), f"Pattern: {node['pattern'][:200]}")
    return _without(node, *words, "patternProperties")


# Pieces -------------------------------------------------------------------------------------------


def _is_plain(pattern: str) -> bool:
    """Return whether RE2, Python and ECMAScript all read the pattern."""
    if _LOOKAROUND.search(pattern) or len(pattern) > 2000:
        return False
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        re2.compile(pattern, options)
        re.compile(pattern)
    except (re2.error, re.error, OverflowError, RecursionError):
        return False
    return True


def _both(one: Node, other: Node) -> Node:
    """Return a schema near to both: properties of both, and of every other word the first."""
    made = {**other, **one}
    for name in ("properties", "patternProperties"):
        if isinstance(one.get(name), dict) and isinstance(other.get(name), dict):
            made[name] = {**other[name], **one[name]}
    required = list(dict.fromkeys([*_names(one.get("required")), *_names(other.get("required"))]))
    if required:
        made["required"] = required
    if one.get("additionalProperties") is False or other.get("additionalProperties") is False:
        made.pop("additionalProperties", None)
    return made


def _for_type(node: Node, kind: str) -> Node:
    words: Mapping[str, tuple[str, ...]] = {
        "object": ("properties", "required", "additionalProperties", "patternProperties"),
        "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
        "string": ("format", "pattern", "minLength", "maxLength"),
    }
    numbers = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format")
    mine = words.get(kind, numbers if kind in ("number", "integer") else ())
    made: Node = {"type": kind, **{name: node[name] for name in mine if name in node}}
    checks = {"string": str, "boolean": bool, "object": dict, "array": list}
    values = [each for each in node.get("enum") or () if isinstance(each, checks.get(kind, int | float))]
    return {**made, "enum": values} if values else made


def _guess(node: Node) -> str:
    if "properties" in node or "additionalProperties" in node or "required" in node or "patternProperties" in node:
        return "object"
    if "items" in node or "prefixItems" in node:
        return "array"
    values = node.get("enum")
    value: Any = values[0] if isinstance(values, list) and values else node.get("const", node.get("default", ""))
    kinds = ((bool, "boolean"), (int, "integer"), (float, "number"), (dict, "object"), (list, "array"))
    found = next((name for kind, name in kinds if isinstance(value, kind)), None)
    if found is not None:
        return found
    return "number" if {"minimum", "maximum", "multipleOf"} & node.keys() else "string"


def _described(node: Node, words: str) -> Node:
    said = node.get("description")
    return {**node, "description": f"{said} ({words})" if isinstance(said, str) and said else words}


def _without(node: Node, *names: str) -> Node:
    return {name: each for name, each in node.items() if name not in names}


def _schemas(value: Json) -> list[Node]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _names(value: Json) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _same(one: Json, other: Json) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)
